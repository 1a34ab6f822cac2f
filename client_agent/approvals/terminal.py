"""The terminal as a channel: one question at a time, answered with one key."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable
from typing import Any, TextIO

from client_agent.approvals.broker import Broker
from client_agent.approvals.change import count_changes, is_diff
from client_agent.approvals.honest import fit, reveal, reveal_content, reveal_value, shorten
from client_agent.approvals.questions import Answer, Outcome, Question, Scope

_MAX_DIFF_LINES = 40
_MAX_LINE_CHARS = 4_000
_MAX_SESSION_CHARS = 120
_MAX_LABEL_CHARS = 200
_HINT = ": `client-agent approvals watch` shows them"
# More than anybody scrolls through; to spell out as much as a file may hold would take minutes.
_MAX_WHOLE_CHARS = 1_000_000
_WHOLE_HINT = ": too many for a terminal"
# A key that was on its way before the question could be read is no answer to it.
TOO_SOON_S = 0.3
_KEYS = {
    "y": Answer(outcome=Outcome.APPROVED, scope=Scope.ONCE, by="terminal"),
    "c": Answer(outcome=Outcome.APPROVED, scope=Scope.CLASS, by="terminal"),
    "a": Answer(outcome=Outcome.APPROVED, scope=Scope.SESSION, by="terminal"),
    "n": Answer(outcome=Outcome.REJECTED, by="terminal"),
}
WARNING = "  ! Everything this session asks for will then run unasked, HIGH risk too. Press a again if you mean it."
ASKED_AGAIN = "You said yes, but since you were asked something has changed: look again."
_GOES_ON = "    ↪ "
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|.", re.DOTALL)  # an arrow is several characters
# By how a line begins: no word of a server's is at the beginning of one.
_COLOURS = {
    "── LOW ──": "1;32", "── MEDIUM ──": "1;33", "── HIGH ──": "1;31", "  ! ": "1;31", "  │ +": "32", "  │ -": "31",
}  # fmt: skip


class TerminalChannel:
    """Shows the oldest open question and takes a key for it."""

    def __init__(self, broker: Broker, out: TextIO = sys.stdout) -> None:
        self._broker = broker
        self._out = out
        self._colour = wants_colour(out)
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
        if answer is None or not self._waiting or self._broker.now() - self._shown_at < TOO_SOON_S:
            return
        question = self._waiting[0]
        if answer.scope is not Scope.ONCE and not question.grantable:
            return
        if answer.scope is Scope.SESSION and not self._warned:
            self._warned = True
            self._print(WARNING)
            return
        self._broker.answer(question.id, question.binding, answer)

    def _show(self, question: Question) -> None:
        for line in render(question, shutil.get_terminal_size().columns):
            self._print(paint(line) if self._colour else line)
        more = f", {len(self._waiting) - 1} more waiting" if len(self._waiting) > 1 else ""
        self._shown_at = self._broker.now()
        seconds = round(question.deadline - self._shown_at)
        self._warned = False
        self._print(f"  Allow it?  ({seconds} s to answer{more})")
        for choice in _choices(question):
            self._print(f"    {choice}")

    def _print(self, line: str) -> None:
        print(line, file=self._out, flush=True)


def paint(line: str) -> str:
    """A line of a question in the colour of what it says."""
    colour = next((colour for begins, colour in _COLOURS.items() if line.startswith(begins)), None)
    return line if colour is None else f"\x1b[{colour}m{line}\x1b[0m"


def wants_colour(out: TextIO) -> bool:
    return out.isatty() and "NO_COLOR" not in os.environ


def _reach(question: Question, answer: Answer) -> str:
    if not answer.approved or answer.scope is Scope.ONCE or question.decision.call_class is None:
        return ""
    covered = f" {show_class(question)}" if answer.scope is Scope.CLASS else "thing"
    return f", and every{covered} of this session"


def show_class(question: Question) -> str:
    """What a yes to the class would cover, in quotes; nothing where there is no class."""
    call_class = question.decision.call_class
    return repr(shorten(call_class.label, _MAX_LABEL_CHARS)) if call_class else ""


def _choices(question: Question) -> list[str]:
    if not question.grantable:
        return ["[y] yes, once", "[n] no"]
    return [
        "[y] yes, once",
        f"[c] yes, and every {show_class(question)} of this session",
        "[a] yes, and everything of this session",
        "[n] no",
    ]


def render(question: Question, columns: int = 80, *, whole: bool = False) -> list[str]:
    """The question as lines of honest text. What is left out is counted; `whole` has room for a file."""
    call, decision = question.call, question.decision
    head = f"── {decision.risk.name} ── {reveal(call.tool_name)} in {question.workspace} ── {question.short_binding} ──"
    lines = ["", *wrap(head, columns)]
    lines += wrap(f"  {_origin(question)}", columns)
    if question.again:
        lines += wrap(f"  ! {ASKED_AGAIN}", columns)
    for name, value in call.tool_params.items():
        if is_diff(question.change) and name == "content":
            continue
        shown = show_value(value, *_room(whole=whole))
        lines += wrap(f"  {shorten(name, _MAX_LABEL_CHARS, reveal_value)}: {shown}", columns)
    for reason in (each for each in decision.reasons if each.code != "needs_network"):
        lines += wrap(f"  · {_bound(reason.text, reveal, whole=whole)}", columns)
    if decision.network:
        lines.append("  ! it would reach the network")
    if question.change:
        lines += _diff(question.change, columns, whole=whole)
    return lines


def _origin(question: Question) -> str:
    """Whose tool it is, and which session wants it."""
    tool = f"of {question.server_id}" if question.server_id else "a tool this daemon does not know"
    session = question.call.session_id
    return f"{tool} · {'no session' if session is None else f'session {shorten(session, _MAX_SESSION_CHARS)}'}"


def _bound(text: str, show: Callable[[str], str], *, whole: bool) -> str:
    """Beginning and end of what would fill the screen many times over."""
    max_chars, hint = _room(whole=whole)
    return fit(text, max_chars, show, hint)


def _room(*, whole: bool) -> tuple[int, str]:
    """How many characters a text may have, and what is said where it has more."""
    return (_MAX_WHOLE_CHARS, _WHOLE_HINT) if whole else (_MAX_LINE_CHARS, _HINT)


def show_value(value: Any, max_chars: int, hint: str) -> str:
    """A parameter's value in honest text, as much of it as there is room for."""
    text, show = (value, reveal_value) if isinstance(value, str) else (_write_out(value), reveal)
    return fit(text, max_chars, show, hint)


def _write_out(value: Any) -> str:
    """As text that is still to be made honest: what several items make together may act, too."""
    if isinstance(value, list):
        return f"[{', '.join(_quote(item) if isinstance(item, str) else _write_out(item) for item in value)}]"
    return str(value)


def _quote(text: str) -> str:
    """As Python does, but for what it would spell out in its own way."""
    mark = '"' if "'" in text and '"' not in text else "'"
    return mark + text.replace("\\", "\\\\").replace(mark, f"\\{mark}") + mark


def _diff(change: str, columns: int, *, whole: bool) -> list[str]:
    added, removed = count_changes(change)
    found = change.rstrip("\n").split("\n")
    most = len(found) if whole else _MAX_DIFF_LINES
    shown = [f"  │ {_bound(line, reveal_content, whole=whole)}" for line in found[:most]]
    lines = [piece for line in shown for piece in wrap(line, columns)]
    if len(found) > most:
        lines.append(f"  │ … {len(found) - most} more lines: `client-agent approvals watch` shows them")
    return [f"  change: +{added} −{removed} lines", *lines]


def wrap(line: str, columns: int) -> list[str]:
    """The line in pieces that fit, between words where there are some; what goes on says so. Nothing is left out."""
    most = max(columns, 20)
    if width(line) <= most:
        return [line]
    pieces, start, taken, word = [], 0, 0, 0
    for place, ch in enumerate(line):
        wide = width(ch)
        if taken + wide > most:
            cut = word if word > (start + place) // 2 else place
            pieces.append(line[start:cut])
            start, taken = cut, len(_GOES_ON) + width(line[cut:place])
        taken += wide
        # Never among several spaces: at the end of a line nobody would see how many.
        if ch == " " and line[place - 1 : place + 2].count(" ") == 1:
            word = place + 1
    pieces.append(line[start:])
    return [pieces[0], *(_GOES_ON + piece for piece in pieces[1:])]


def width(text: str) -> int:
    """How many columns a terminal gives it: letters of East Asia take two."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(ch) in "WF" else 1 for ch in text)


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
        for key in _KEY.findall(os.read(self._fd, 64).decode("utf-8", "replace")):
            self._on_key(key)
