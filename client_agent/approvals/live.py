"""Questions on a whole terminal screen: one at a time, all of it, answered with single keys.

Nothing here touches the terminal: keys and questions go in, the lines of a screen come out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from client_agent.approvals.honest import reveal
from client_agent.approvals.questions import Answer, Outcome, Question, Scope
from client_agent.approvals.terminal import TOO_SOON_S, WARNING, render, show_class, width, wrap

MAX_REASON_CHARS = 500
_ESCAPE = "\x1b"
_SCROLLS = {"j": 1, "k": -1, "\x1b[B": 1, "\x1b[A": -1, " ": 10, "b": -10, "\x1b[6~": 10, "\x1b[5~": -10}
# How long a yes to more than one call holds, in words; without a number, as long as it can.
_LIFETIMES: list[tuple[float | None, str]] = [(None, "8 hours at most"), (3600, "1 hour"), (900, "15 minutes")]
_TURNS = {"\t": 1, "\x1b[C": 1, "\x1b[D": -1, "\x1b[Z": -1}

Send = Callable[[Question, Answer], None]


class LiveView:
    """What a person sees and does. `send` passes an answer on; a question leaves when the daemon says it is gone."""

    def __init__(self, send: Send, now: Callable[[], float]) -> None:
        self._send = send
        self._now = now
        self._questions: list[Question] = []
        self._at = 0
        self._scroll = 0
        self._shown_at = now()
        self._warned = False
        self._reason: str | None = None
        self._astray = False  # the question went away while a reason was being written: its letters answer no other
        self._lifetimes = deque(_LIFETIMES)
        self._rendered: tuple[str, int, list[str]] = ("", 0, [])
        self.message = ""

    # What happens.

    def open(self, question: Question) -> None:
        self._questions.append(question)
        if len(self._questions) == 1:
            self._turn_to(0)

    def close(self, question_id: str, words: str) -> None:
        """Answered, here or elsewhere."""
        for index, question in enumerate(self._questions):
            if question.id == question_id:
                self.message = f"{reveal(question.call.tool_name)}: {words}"
                del self._questions[index]
                if index == self._at:
                    self._astray = self.typing
                    self._turn_to(min(index, len(self._questions) - 1))
                elif index < self._at:
                    self._at -= 1
                return

    @property
    def typing(self) -> bool:
        """Whether keys are letters of a reason."""
        return self._reason is not None or self._astray

    def press(self, key: str) -> None:
        """A key from the keyboard, an arrow as the terminal spells it."""
        if self._astray:
            self._astray = key not in (_ESCAPE, "\r", "\n")
            self._shown_at = self._now()
        elif self._reason is not None:
            self._type(key)
        elif self._questions:
            self._act(key)

    def _act(self, key: str) -> None:
        if key in _SCROLLS:
            self._scroll = max(0, self._scroll + _SCROLLS[key])
        elif key in _TURNS:
            self._turn_to((self._at + _TURNS[key]) % len(self._questions))
        elif self._now() - self._shown_at >= TOO_SOON_S:
            self._answer(key.lower())

    def _answer(self, key: str) -> None:
        question = self._questions[self._at]
        scope = {"y": Scope.ONCE, "c": Scope.CLASS, "a": Scope.SESSION}.get(key)
        if scope is not None and (scope is Scope.ONCE or question.grantable):
            if scope is Scope.SESSION and not self._warned:
                self._warned, self.message = True, WARNING
                return
            for_s = None if scope is Scope.ONCE else self._lifetimes[0][0]
            self._send(question, Answer(outcome=Outcome.APPROVED, scope=scope, for_s=for_s))
        elif key == "n":
            self._send(question, Answer(outcome=Outcome.REJECTED))
        elif key == "r":
            self._reason = ""
        elif key == "t":
            self._lifetimes.rotate(-1)

    def _type(self, key: str) -> None:
        """The reason of a no: Enter says it, Escape forgets it."""
        assert self._reason is not None  # noqa: S101
        if key in "\r\n":
            self._send(self._questions[self._at], Answer(outcome=Outcome.REJECTED, reason=self._reason))
            self._reason = None
        elif key == _ESCAPE:
            self._reason = None
        elif key in "\x7f\b":
            self._reason = self._reason[:-1]
        elif key.isprintable() and len(key) == 1 and len(self._reason) < MAX_REASON_CHARS:
            self._reason += key

    def _turn_to(self, index: int) -> None:
        self._at, self._scroll, self._warned, self._reason = max(0, index), 0, False, None
        self._shown_at = self._now()
        if self.message == WARNING:
            self.message = ""  # it was about the question that was left

    # What is seen.

    def draw(self, columns: int, rows: int) -> list[str]:
        """Exactly so many lines, none wider than the screen."""
        if not self._questions:
            body: list[str] = ["", "  no question is open: questions appear here as they come"]
            head, foot = "client-agent", ["[q] leave"]
        else:
            question = self._questions[self._at]
            left_s = max(0, round(question.deadline - self._now()))
            head = f"question {self._at + 1} of {len(self._questions)} · {left_s} s left"
            body = self._render(question, columns)
            foot = [piece for line in self._choices(question) for piece in wrap(line, columns)]
        if self._astray:
            foot = ["the question you wrote about is gone: [Enter] goes on"]
        foot = [*(wrap(self.message, columns)[:2] if self.message else ()), *foot]
        room = max(1, rows - 2 - len(foot))
        self._scroll = max(0, min(self._scroll, len(body) - room))
        below = len(body) - self._scroll - room
        shown = body[self._scroll : self._scroll + room]
        more = f"── {self._scroll} lines above, {max(0, below)} below: ↑ ↓ ──" if len(body) > room else "─" * columns
        lines = [head, *shown, *[""] * (room - len(shown)), more, *foot]
        return [_fit(line, columns) for line in lines[:rows]]

    def _render(self, question: Question, columns: int) -> list[str]:
        """Once for each question and width: it may be long, and the screen is drawn every second."""
        if self._rendered[:2] != (question.id, columns):
            lines = [piece for line in render(question, columns, whole=True)[1:] for piece in wrap(line, columns)]
            self._rendered = (question.id, columns, lines)
        return self._rendered[2]

    def _choices(self, question: Question) -> list[str]:
        if self._reason is not None:
            return [f"no, because: {reveal(self._reason)}▏", "[Enter] say it  [Esc] back"]
        choices = ["[y] yes, once  [n] no  [r] no, because…", "[Tab] next  [↑ ↓] scroll  [q] leave"]
        if question.grantable:
            choices[1:1] = [
                f"[c] yes, and every {show_class(question)} of this session",
                "[a] yes, and everything of this session",
                f"[t] both for {self._lifetimes[0][1]}",
            ]
        return choices


def _fit(line: str, columns: int) -> str:
    while width(line) > columns:
        line = line[:-1]
    return line
