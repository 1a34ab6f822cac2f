"""The terminal as a channel: one question at a time, answered with one key."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any, TextIO

from client_agent.approvals.broker import Broker
from client_agent.approvals.change import count_changes
from client_agent.approvals.honest import reveal, reveal_lines
from client_agent.approvals.questions import Answer, Outcome, Question, Scope
from client_agent.policy.decision import Risk

_MAX_DIFF_LINES = 40
# A key that was on its way before the question could be read is no answer to it.
_TOO_SOON_S = 0.3
_KEYS = {
    "y": Answer(outcome=Outcome.APPROVED, scope=Scope.ONCE, by="terminal"),
    "c": Answer(outcome=Outcome.APPROVED, scope=Scope.CLASS, by="terminal"),
    "a": Answer(outcome=Outcome.APPROVED, scope=Scope.SESSION, by="terminal"),
    "n": Answer(outcome=Outcome.REJECTED, by="terminal"),
}
_WARNING = "  ! Everything this session asks for will then run unasked, HIGH risk too. Press a again if you mean it."
_COLOURS = {Risk.LOW: "32", Risk.MEDIUM: "33", Risk.HIGH: "31"}


class TerminalChannel:
    """Shows the oldest open question and takes a key for it."""

    def __init__(self, broker: Broker, out: TextIO = sys.stdout) -> None:
        self._broker = broker
        self._out = out
        self._colour = out.isatty() and "NO_COLOR" not in os.environ
        self._waiting: list[Question] = []
        self._shown_at = 0.0
        self._warned = False

    def opened(self, question: Question) -> None:
        self._waiting.append(question)
        if len(self._waiting) == 1:
            self._show(question)

    def closed(self, question: Question, answer: Answer) -> None:
        shown = self._waiting[0] is question
        self._waiting.remove(question)
        if shown:
            by = f" ({answer.by})" if answer.by and answer.by != "terminal" else ""
            self._print(f"  → {answer.outcome.value.replace('_', ' ')}{_reach(question, answer)}{by}")
            if self._waiting:
                self._show(self._waiting[0])

    def press(self, key: str) -> None:
        """A key from the keyboard."""
        answer = _KEYS.get(key.lower())
        if answer is None or not self._waiting or self._broker.now() - self._shown_at < _TOO_SOON_S:
            return
        question = self._waiting[0]
        if answer.scope is not Scope.ONCE and not question.grantable:
            return
        if answer.scope is Scope.SESSION and not self._warned:
            self._warned = True
            self._print(_WARNING)
            return
        self._broker.answer(question.id, answer)

    def _show(self, question: Question) -> None:
        for line in render(question, shutil.get_terminal_size().columns):
            self._print(self._paint(line, question.decision.risk))
        more = f", {len(self._waiting) - 1} more waiting" if len(self._waiting) > 1 else ""
        self._shown_at = self._broker.now()
        seconds = round(question.deadline - self._shown_at)
        self._warned = False
        self._print(f"  Allow it?  ({seconds} s to answer{more})")
        for choice in _choices(question):
            self._print(f"    {choice}")

    def _paint(self, line: str, risk: Risk) -> str:
        if not self._colour:
            return line
        if line.startswith("── "):
            return f"\x1b[1;{_COLOURS[risk]}m{line}\x1b[0m"
        if line.startswith("  │ +"):
            return f"\x1b[32m{line}\x1b[0m"
        if line.startswith("  │ -"):
            return f"\x1b[31m{line}\x1b[0m"
        return line

    def _print(self, line: str) -> None:
        print(line, file=self._out, flush=True)


def _reach(question: Question, answer: Answer) -> str:
    if not answer.approved or answer.scope is Scope.ONCE or question.decision.call_class is None:
        return ""
    covered = f" {reveal(question.decision.call_class.label)!r}" if answer.scope is Scope.CLASS else "thing"
    return f", and every{covered} of this session"


def _choices(question: Question) -> list[str]:
    if not question.grantable or question.decision.call_class is None:
        return ["[y] yes, once", "[n] no"]
    label = reveal(question.decision.call_class.label)
    return [
        "[y] yes, once",
        f"[c] yes, and every {label!r} of this session",
        "[a] yes, and everything of this session",
        "[n] no",
    ]


def render(question: Question, columns: int = 80) -> list[str]:
    """The question as lines of honest text; long values are wrapped, never cut."""
    call, decision = question.call, question.decision
    lines = ["", f"── {decision.risk.name} ── {reveal(call.tool_name)} in {question.workspace} ──"]
    for name, value in call.tool_params.items():
        if question.change.startswith("--- ") and name == "content":
            continue
        lines += _wrap(f"  {reveal(name)}: {_value(value)}", columns)
    lines += [f"  · {reveal(reason.text)}" for reason in decision.reasons]
    if decision.network:
        lines.append("  ! it would reach the network")
    if question.change:
        lines += _diff(question.change, columns)
    return lines


def _value(value: Any) -> str:
    if isinstance(value, str):
        return reveal(value)
    if isinstance(value, list):
        return "[" + ", ".join(repr(_value(item)) if isinstance(item, str) else _value(item) for item in value) + "]"
    return reveal(str(value))


def _diff(change: str, columns: int) -> list[str]:
    added, removed = count_changes(change)
    shown = reveal_lines(change.rstrip("\n"))
    lines = [piece for line in shown[:_MAX_DIFF_LINES] for piece in _wrap(f"  │ {line}", columns)]
    if len(shown) > _MAX_DIFF_LINES:
        lines.append(f"  │ … {len(shown) - _MAX_DIFF_LINES} more lines of the change are not shown here")
    return [f"  change: +{added} −{removed} lines", *lines]


def _wrap(line: str, columns: int) -> list[str]:
    width = max(columns, 20)
    if len(line) <= width:
        return [line]
    return [line[:width], *("    ↪ " + line[i : i + width - 6] for i in range(width, len(line), width - 6))]


class Keyboard:
    """Single keys from the terminal, without Enter, for as long as it is open."""

    def __init__(self, on_key: Callable[[str], None]) -> None:
        self._on_key = on_key
        self._fd = sys.stdin.fileno()
        self._saved: list[Any] | None = None

    def __enter__(self) -> Keyboard:
        import termios
        import tty

        self._saved = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        # Keys typed before a question was on the screen answer nothing.
        termios.tcflush(self._fd, termios.TCIFLUSH)
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        import termios

        asyncio.get_running_loop().remove_reader(self._fd)
        if self._saved is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved)

    def _read(self) -> None:
        for key in os.read(self._fd, 64).decode("utf-8", "replace"):
            self._on_key(key)
