"""The live view: what is on the screen, and what keys do."""

from __future__ import annotations

import msgspec
import pytest

from client_agent.approvals.live import LiveView
from client_agent.approvals.questions import Answer, Outcome, Question, Scope
from client_agent.approvals.terminal import width
from client_agent.policy.decision import CallClass, Risk
from tests.unit.approvals.test_broker import Clock, question

HOSTILE = [
    "\x1b[2J\x1b[1;1HApproved",
    "a\u202eb",
    "rm\u200b",
    "l\u0455",
    "x" * 5000,
    "\u65e5\u672c" * 200,
    "a\n[y] yes",
]


class Screen:
    def __init__(self) -> None:
        self.now = Clock()
        self.sent: list[tuple[str, Answer]] = []
        self.view = LiveView(lambda asked, answer: self.sent.append((asked.id, answer)), self.now)

    def press(self, *keys: str) -> None:
        self.now.time += 1
        for key in keys:
            self.view.press(key)

    def text(self, columns: int = 80, rows: int = 24) -> str:
        lines = self.view.draw(columns, rows)
        assert len(lines) == rows
        assert all(width(line) <= columns for line in lines)
        return "\n".join(lines)


@pytest.fixture
def screen() -> Screen:
    return Screen()


def grantable(question_id: str = "q") -> Question:
    base = question(question_id)
    decision = msgspec.structs.replace(base.decision, call_class=CallClass(label="write_file *.md", risk=Risk.MEDIUM))
    return msgspec.structs.replace(base, decision=decision, call=msgspec.structs.replace(base.call, session_id="s"))


@pytest.mark.parametrize(
    ("key", "outcome", "scope"),
    [
        ("y", Outcome.APPROVED, Scope.ONCE),
        ("c", Outcome.APPROVED, Scope.CLASS),
        ("n", Outcome.REJECTED, Scope.ONCE),
    ],
)
def test_one_key_answers(screen: Screen, key: str, outcome: Outcome, scope: Scope) -> None:
    screen.view.open(grantable())
    screen.press(key)
    assert screen.sent == [("q", Answer(outcome=outcome, scope=scope))]


def test_everything_needs_a_second_press_after_a_warning(screen: Screen) -> None:
    screen.view.open(grantable())
    screen.press("a")
    assert screen.sent == []
    assert "Press a again" in screen.text(columns=120)
    screen.press("a")
    assert screen.sent[0][1].scope is Scope.SESSION


def test_what_cannot_be_granted_is_not_offered_nor_taken(screen: Screen) -> None:
    screen.view.open(question())
    assert "[c]" not in screen.text()
    screen.press("c", "a", "a")
    assert screen.sent == []


def test_a_no_can_be_given_a_reason_and_taken_back_before_it_is_said(screen: Screen) -> None:
    screen.view.open(question())
    screen.press("r", *"nope", "\x7f")
    assert screen.view.typing
    assert "because: nop" in screen.text()
    screen.press("\x1b")
    assert not screen.view.typing
    screen.press("r", *"not y", "\r")
    assert screen.sent == [("q", Answer(outcome=Outcome.REJECTED, reason="not y"))]


@pytest.mark.parametrize("end", ["\r", "\x1b"])
def test_letters_of_a_reason_whose_question_went_away_answer_no_other(screen: Screen, end: str) -> None:
    screen.view.open(question("q1"))
    screen.view.open(grantable("q2"))
    screen.press("r", *"not ")
    screen.view.close("q1", "timed out")
    for letter in "yacnr":
        screen.press(letter)
    assert screen.view.typing
    assert "is gone: [Enter]" in screen.text()
    screen.press(end)
    assert not screen.view.typing
    screen.view.press("y")  # too soon
    assert screen.sent == []
    screen.press("y")
    assert [each for each, _ in screen.sent] == ["q2"]


def test_nor_those_that_come_later(screen: Screen) -> None:
    screen.view.open(question("q1"))
    screen.press("r")
    screen.view.close("q1", "approved (page)")
    assert "is gone: [Enter]" in screen.text()
    screen.view.open(question("q2"))
    screen.press("y")
    assert screen.sent == []


def test_a_warning_goes_with_the_question_it_was_given_for(screen: Screen) -> None:
    screen.view.open(grantable("q1"))
    screen.view.open(grantable("q2"))
    screen.press("a")
    screen.press("\t")
    assert "Press a again" not in screen.text(columns=120)
    screen.press("a")
    assert screen.sent == []


def test_a_key_that_was_on_its_way_before_the_question_came_answers_nothing(screen: Screen) -> None:
    screen.view.open(question())
    screen.view.press("y")
    assert screen.sent == []
    screen.press("y")
    screen.view.open(question("q2"))
    screen.view.close("q", "approved")
    screen.view.press("y")
    assert [each for each, _ in screen.sent] == ["q"]


def test_what_is_answered_elsewhere_disappears_and_the_one_looked_at_stays(screen: Screen) -> None:
    for name in ("q1", "q2", "q3"):
        screen.view.open(question(name))
    screen.press("\t")
    assert "question 2 of 3" in screen.text()
    screen.view.close("q1", "approved (page)")
    assert "question 1 of 2" in screen.text()
    assert "approved (page)" in screen.text()
    screen.press("n")
    assert screen.sent[0][0] == "q2"
    for name in ("q2", "q3"):
        screen.view.close(name, "rejected")
    assert "no question is open" in screen.text()
    screen.press("y", "\t", "j", "r")
    assert len(screen.sent) == 1


def test_the_time_left_goes_on(screen: Screen) -> None:
    screen.view.open(question())
    assert "300 s left" in screen.text()
    screen.now.time = 290
    assert "10 s left" in screen.text()


def test_a_long_change_is_scrolled_to_its_last_line(screen: Screen) -> None:
    change = "--- a\n+++ a\n" + "".join(f"+line {n}\n" for n in range(200))
    screen.view.open(msgspec.structs.replace(question(), change=change))
    assert "line 199" not in screen.text()
    assert "below: ↑ ↓" in screen.text()
    for _ in range(30):
        screen.press(" ")
        screen.text()
    assert "+line 199" in screen.text()
    screen.press("\x1b[A")
    assert "+line 199" not in screen.text()


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (30, 12)])
def test_hostile_text_stays_in_its_place_at_every_size(screen: Screen, text: str, columns: int, rows: int) -> None:
    base = question()
    call = msgspec.structs.replace(base.call, tool_params={"path": text})
    screen.view.open(msgspec.structs.replace(base, call=call))
    shown = screen.text(columns, rows)
    assert not set(shown) & {"\x1b", "\u202e", "\u200b", "\u0455"}
    assert "\n[y] yes\n" not in shown


def test_a_wider_yes_holds_for_as_long_as_was_chosen(screen: Screen) -> None:
    screen.view.open(grantable())
    assert "for 8 hours at most" in screen.text()
    screen.press("t", "t")
    assert "for 15 minutes" in screen.text()
    screen.press("c")
    screen.press("y")
    assert [(answer.scope, answer.for_s) for _, answer in screen.sent] == [(Scope.CLASS, 900), (Scope.ONCE, None)]
