"""Tickets, and questions as people see them."""

from __future__ import annotations

import msgspec

from client_agent.approvals.questions import Question
from client_agent.local_api.keys import MAX_TICKETS, TICKET_LIFETIME_S, Keys
from client_agent.local_api.shown import MAX_VALUE_CHARS, pack_question, show_question
from tests.unit.approvals.test_broker import Clock, question


def test_a_ticket_works_once_and_not_for_long() -> None:
    now = Clock()
    keys = Keys(now)
    first, second = keys.issue_ticket(), keys.issue_ticket()
    assert not keys.redeem("")
    assert not keys.redeem("ü")
    assert keys.redeem(first)
    assert not keys.redeem(first)
    now.time += TICKET_LIFETIME_S
    assert not keys.redeem(second)


def test_only_so_many_tickets_are_out_at_once() -> None:
    keys = Keys()
    tickets = [keys.issue_ticket() for _ in range(MAX_TICKETS + 1)]
    assert not keys.redeem(tickets[0])
    assert keys.redeem(tickets[-1])


def test_the_secrets_of_two_starts_differ() -> None:
    one, other = Keys(), Keys()
    assert len({one.cookie, one.page_key, other.cookie, other.page_key}) == 4


def with_params(change: str = "", **params: object) -> Question:
    base = question()
    return msgspec.structs.replace(base, call=msgspec.structs.replace(base.call, tool_params=params), change=change)


def test_every_text_is_honest_and_what_is_left_out_is_counted() -> None:
    shown = show_question(with_params(path="a\u202eb", content="x" * 20_000), 0.0)
    values = {each["name"]: each for each in shown["parameters"]}
    assert values["path"]["value"] == "a⟨U+202E⟩b"
    assert values["content"]["left_out"] == 20_000 - MAX_VALUE_CHARS
    assert f"⟨{20_000 - MAX_VALUE_CHARS} characters left out⟩" in values["content"]["value"]
    whole = show_question(with_params(path="a", content="x" * 20_000), 0.0, whole=True)
    assert whole["parameters"][1]["value"] == "x" * 20_000


def test_spaces_at_the_ends_of_a_name_are_counted() -> None:
    shown = show_question(with_params(path="a.md "), 0.0)
    assert shown["target"] == shown["parameters"][0]["value"] == "a.md⟨1 space⟩"


def test_a_change_takes_the_place_of_the_content() -> None:
    change = "--- a\n+++ a\n@@ -1 +1 @@\n-old\n+n\x1bew\n"
    shown = show_question(with_params(change, path="a", content="n\x1bew\n"), 0.0)
    assert [each["name"] for each in shown["parameters"]] == ["path"]
    assert shown["change"]["lines"][-1] == "+n⟨U+001B⟩ew"
    assert (shown["change"]["added"], shown["change"]["removed"]) == (1, 1)
    packed = pack_question(with_params(change, path="a", content="new"))
    assert packed["question"]["call"]["tool_params"] == {"path": "a"}


def test_a_content_that_could_not_be_compared_is_shown_itself() -> None:
    shown = show_question(with_params("(no preview: too large)", path="a", content="abc"), 0.0)
    assert [each["name"] for each in shown["parameters"]] == ["path", "content"]


def test_a_long_diff_says_how_much_of_it_is_missing() -> None:
    shown = show_question(with_params("".join(f"+{n}\n" for n in range(1000)), path="a", content="x"), 0.0)
    assert (len(shown["change"]["lines"]), shown["change"]["left_out"]) == (300, 700)
