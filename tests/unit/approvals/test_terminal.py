"""The terminal's question: complete, honest, answered with one key."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import sys
from typing import Any

import msgspec
import pytest

from client_agent.approvals import honest
from client_agent.approvals.broker import Broker
from client_agent.approvals.notifications import compose_body
from client_agent.approvals.questions import Outcome, Question
from client_agent.approvals.terminal import Keyboard, TerminalChannel, render, width, wrap
from client_agent.policy.decision import CallClass, Reason, Risk
from tests.unit.approvals.test_broker import Clock, question


def with_params(params: dict[str, Any], change: str = "") -> Question:
    base = question()
    return msgspec.structs.replace(base, call=msgspec.structs.replace(base.call, tool_params=params), change=change)


def full_of(text: str, now: float = 0) -> Question:
    """A question in which every word of the server's is this one."""
    base = question(deadline=now + 300)
    call = msgspec.structs.replace(base.call, tool_params={"command": "git", "args": [text]}, session_id=text)
    call_class = CallClass(label=f"git {text}", risk=Risk.MEDIUM)
    reasons = (Reason("server_says", f"the server says: {text}"),)
    decision = msgspec.structs.replace(base.decision, reasons=reasons, call_class=call_class)
    call = msgspec.structs.replace(call, tool_name="execute_command")
    return msgspec.structs.replace(base, call=call, decision=decision, server_id="shell")


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]8;;http://evil\x07ok",
        "a\u202eb",
        "\u05d0/\u05d1",
        "ж" + "\u0301" * 9,
        "a\nRisk: LOW",
        "x" * 200_000 + "END",
    ],
)
def test_no_word_of_a_server_acts_or_floods_wherever_the_terminal_shows_it(text: str) -> None:
    lines = render(full_of(text), columns=70)
    assert all(line.isprintable() and width(line) <= 70 for line in lines)
    assert not any(line.startswith(("Risk", "x")) for line in lines)
    assert text not in "".join(lines)
    whole = "".join(lines).replace("    ↪ ", "")
    assert len(whole) < 15_000
    assert whole.count("END") == (3 if text.endswith("END") else 0)


def test_the_terminal_says_whose_tool_it_is_which_session_wants_it_and_what_the_answer_is_bound_to() -> None:
    asked = full_of("s1")
    text = "\n".join(render(asked))
    assert "of shell · session s1" in text
    assert f"── {asked.short_binding} ──" in text
    assert "look again" not in text
    assert "look again" in "\n".join(render(msgspec.structs.replace(asked, again=True)))
    nameless = msgspec.structs.replace(with_params({}), server_id="")
    assert "a tool this daemon does not know · no session" in "\n".join(render(nameless))


async def open_question(broker: Broker, *questions: Question) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(broker.ask(item)) for item in questions]
    await asyncio.sleep(0)
    return tasks


async def test_a_key_answers_the_question_on_the_screen() -> None:
    now, out = Clock(), io.StringIO()
    broker = Broker(now)
    channel = TerminalChannel(broker, out)
    broker.attach(channel)
    first, second = await open_question(broker, question("q1"), question("q2"))
    assert "1 more waiting" not in out.getvalue().split("q2")[0]
    now.time = 1.0
    channel.press("Y")
    assert (await first).outcome is Outcome.APPROVED
    now.time = 2.0
    channel.press("?")
    channel.press("n")
    assert (await second).outcome is Outcome.REJECTED
    assert out.getvalue().count("Allow it?") == 2
    assert "→ approved" in out.getvalue()
    assert "→ rejected" in out.getvalue()


async def test_a_key_that_was_already_on_its_way_is_no_answer() -> None:
    now = Clock()
    broker = Broker(now)
    channel = TerminalChannel(broker, io.StringIO())
    broker.attach(channel)
    (asking,) = await open_question(broker, question())
    channel.press("y")
    await asyncio.sleep(0)
    assert not asking.done()
    now.time = 1.0
    channel.press("y")
    assert (await asking).approved


async def test_a_key_without_a_question_does_nothing() -> None:
    TerminalChannel(Broker(Clock()), io.StringIO()).press("y")


def test_every_parameter_is_shown_whole_and_honestly() -> None:
    long = "safe.txt" + "x" * 300 + " --output=evil"
    text = "\n".join(render(with_params({"path": "a\x1b[2J", "args": [long, 3], "n": 5}), columns=60))
    assert "⟨U+001B⟩[2J" in text
    assert "\x1b" not in text
    assert "--output=evil" in text.replace("\n    ↪ ", "")
    assert all(len(line) <= 60 for line in text.splitlines())


def test_a_whole_question_shows_what_a_file_may_hold_and_counts_what_nobody_would_read() -> None:
    whole = "".join(render(with_params({"content": "я" * 900_000}), whole=True))
    assert whole.count("я") == 900_000
    more = "".join(render(with_params({"content": "x" * 1_500_000}), whole=True))
    assert "⟨500000 characters left out" in more.replace("    ↪ ", "")


def test_two_arguments_written_from_right_to_left_keep_their_places() -> None:
    assert "  args: ['\u05d0⟨U+0027⟩, '\u05d1']" in render(with_params({"args": ["\u05d0", "\u05d1"]}))


LONG = "\u202e" * 500_000


@pytest.mark.parametrize(
    ("params", "change"),
    [
        ({"content": LONG}, "(no comparison)"),
        ({"args": [LONG, "x"]}, ""),
        ({"path": "a"}, f"--- a\n+++ a\n+{LONG}\n"),
        ({"path": "a"}, "--- a\n+++ a\n" + "+\u202e\n" * 100_000),
    ],
)
def test_the_daemon_is_not_held_up_by_what_it_does_not_show(
    monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], change: str
) -> None:
    looked_at = 0
    spell_out = honest._spell_out

    def count(text: str) -> str:
        nonlocal looked_at
        looked_at += len(text)
        return spell_out(text)

    monkeypatch.setattr(honest, "_spell_out", count)
    long = with_params(params, change)
    assert "left out" in "".join(render(long)) or "more lines" in "".join(render(long))
    assert not compose_body(long)[1]
    assert looked_at < 50_000


def test_a_long_line_goes_on_between_words_and_loses_nothing() -> None:
    text = "  · writes it where others of its kind are, as far as they are known"
    assert wrap(text, 40) == ["  · writes it where others of its kind ", "    ↪ are, as far as they are known"]
    for line in (text * 9, "x" * 300, "a " * 200, "ab" + " " * 90 + "c" + " " * 90, "日本 " * 80):
        pieces = wrap(line, 40)
        assert all(width(piece) <= 40 for piece in pieces)
        assert pieces[0] + "".join(piece.removeprefix("    ↪ ") for piece in pieces[1:]) == line
    assert wrap("path: " + "x" * 30 + "    y", 40)[0].endswith("x    ")  # among several spaces only where it must


def test_spaces_that_nobody_would_see_are_counted() -> None:
    lines = render(with_params({"path": "notes.md ", "args": ["a ", " "], " n": 5}))
    assert {"  path: notes.md⟨1 space⟩", "  args: ['a ', ' ']", "  ⟨1 space⟩n: 5"} <= set(lines)


def test_a_write_shows_its_diff_with_counts_and_says_what_it_leaves_out() -> None:
    change = "--- a\n+++ a\n@@ -1 +1,60 @@\n-old\n" + "".join(f"+line {n}\n" for n in range(60))
    lines = render(with_params({"path": "a", "content": "not shown twice"}, change))
    text = "\n".join(lines)
    assert "change: +60 −1 lines" in text
    assert "  │ -old" in lines
    assert "24 more lines: `client-agent approvals watch` shows them" in text
    assert "not shown twice" not in text


async def test_colours_are_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Tty()
    broker = Broker(Clock())
    broker.attach(TerminalChannel(broker, out))
    (asking,) = await open_question(broker, with_params({"path": "a"}, "--- a\n+++ b\n-x\n+y\n"))
    assert "\x1b[1;33m── MEDIUM" in out.getvalue()
    assert "\x1b[32m  │ +y" in out.getvalue()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_the_keyboard_gives_single_keys_and_puts_the_terminal_back(monkeypatch: pytest.MonkeyPatch) -> None:
    import termios

    keys: asyncio.Queue[str] = asyncio.Queue()
    primary, secondary = pty.openpty()
    with os.fdopen(secondary, "r", closefd=True) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        before = termios.tcgetattr(terminal.fileno())
        with Keyboard(keys.put_nowait):
            os.write(primary, b"y")
            assert await asyncio.wait_for(keys.get(), 5) == "y"
        assert termios.tcgetattr(terminal.fileno()) == before
    os.close(primary)
