"""The desktop as a channel: a notification for each question, taken back everywhere once it is answered.

MEDIUM can be approved and rejected from it; HIGH is only announced, with a way to the page, where there is room for all
of it. So is whatever does not fit a notification whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

from client_agent.approvals.broker import Broker
from client_agent.approvals.change import count_changes, is_diff
from client_agent.approvals.desktop import Desktop, NoService, Note, has_session
from client_agent.approvals.honest import fit, reveal, reveal_content, reveal_value
from client_agent.approvals.questions import Answer, Outcome, Question
from client_agent.approvals.terminal import show_value
from client_agent.policy.decision import Risk
from client_agent.protocol.tools import find_spec

MAX_SHOWN = 3  # at a time: more would hide each other, and the page has room for all
MAX_BODY_CHARS = 400
MAX_CHANGED_LINES = 8
MAX_LINE_CHARS = 100
MAX_NAME_CHARS = 40
_HINT = ": open the page to see and approve it"
_LEFT_OUT = f"left out{_HINT}⟩"  # no other text has this sign unspelled
# Pressed sooner than this, a button was under the pointer by chance.
_TOO_SOON_S = 0.5
_CALL_S = 5.0
_RETRY_S = 60.0

log = logging.getLogger(__name__)


class State(StrEnum):
    READY = "ready"  # not needed so far
    ON = "on"
    MISSING = "missing"  # no service, or one that does not answer


class Service(Protocol):
    """What shows notifications (see `desktop.Desktop`)."""

    has_buttons: bool

    async def open(self) -> None: ...

    async def show(self, note: Note) -> str: ...

    async def clear(self, shown: str) -> None: ...

    def close(self) -> None: ...


class NotificationChannel:
    """Shows the oldest questions. A missing service is no error: it is in the status, and tried again later."""

    def __init__(
        self,
        broker: Broker,
        *,
        open_page: Callable[[], None],
        wanted: Callable[[str], bool],
        service: Callable[[], Service] = Desktop,
        session: Callable[[], bool] = has_session,
    ) -> None:
        self.state = State.READY if session() else State.MISSING
        self.detail = "" if session() else "there is no desktop session"
        self._broker = broker
        self._open_page = open_page
        self._wanted = wanted
        self._make_service = service
        self._session = session
        self._service: Service | None = None
        self._waiting: dict[str, Question] = {}
        self._shown: dict[str, tuple[str, float]] = {}
        self._tried_at = float("-inf")
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def reaches(self, question: Question) -> bool:
        """Whether a person may see this question here."""
        usable = self.state is not State.MISSING and question.decision.risk < Risk.HIGH
        return usable and self._wanted(question.workspace)

    # As a channel of the broker.

    def opened(self, question: Question) -> None:
        if self._session() and self._wanted(question.workspace):
            self._waiting[question.id] = question
            self._stir()

    def closed(self, question: Question, answer: Answer) -> None:
        if self._waiting.pop(question.id, None) is not None:
            self._stir()

    async def close(self) -> None:
        """Takes back what is shown, and ends."""
        self._waiting.clear()
        self._closing = True
        self._changed.set()
        if self._task is not None:  # not cancelled: what it is about to show must be known to be taken back
            await asyncio.wait([self._task], timeout=2 * _CALL_S)
        await self._update()
        if self._service is not None:
            self._service.close()
            self._service = None

    def _stir(self) -> None:
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="notifications")

    async def _work(self) -> None:
        while not self._closing:
            await self._changed.wait()
            self._changed.clear()
            await self._update()

    async def _update(self) -> None:
        """Brings what is shown in line with what is open."""
        try:
            async with asyncio.timeout(_CALL_S):
                await self._clear_answered()
                await self._show_waiting()
        except (NoService, TimeoutError) as error:
            self._give_up(str(error) or "the notification service does not answer")
        except Exception:
            log.exception("notifications failed unexpectedly")
            self._give_up("it failed unexpectedly; see the daemon's log")

    async def _clear_answered(self) -> None:
        for question_id in [each for each in self._shown if each not in self._waiting]:
            shown, _ = self._shown.pop(question_id)
            if self._service is not None:
                await self._service.clear(shown)

    async def _show_waiting(self) -> None:
        for question in list(self._waiting.values())[:MAX_SHOWN]:
            if question.id in self._shown:
                continue
            service = await self._get_service()
            if service is None:
                return
            note = self._describe(question, service)
            self._shown[question.id] = (await service.show(note), self._broker.now())

    async def _get_service(self) -> Service | None:
        if self._service is None and self._broker.now() - self._tried_at >= _RETRY_S:
            self._tried_at = self._broker.now()
            service = self._make_service()
            await service.open()
            self._service = service
            self.state, self.detail = State.ON, ""
        return self._service

    def _give_up(self, why: str) -> None:
        log.debug("no notifications: %s", why)
        self.state, self.detail = State.MISSING, why
        self._shown.clear()
        if self._service is not None:
            self._service.close()
            self._service = None
        self._broker.drop_unreachable()

    # What is shown, and what comes of a press.

    def _describe(self, question: Question, service: Service) -> Note:
        body, whole = compose_body(question)
        buttons: dict[str, Callable[[], None]] = {}
        if service.has_buttons:
            if question.decision.risk < Risk.HIGH:
                if whole:
                    buttons["Approve"] = lambda: self._press(question, Outcome.APPROVED)
                buttons["Reject"] = lambda: self._press(question, Outcome.REJECTED)
            buttons["Open"] = self._open_page
        return Note(
            title=compose_title(question),
            body=body,
            buttons=buttons,
            on_click=self._open_page,
            timeout_s=max(1.0, question.deadline - self._broker.now()),
        )

    def _press(self, question: Question, outcome: Outcome) -> None:
        _, at = self._shown.pop(question.id, ("", float("-inf")))
        if self._broker.now() - at < _TOO_SOON_S:
            self._stir()  # shown again
        else:
            self._broker.answer(question.id, question.binding, Answer(outcome=outcome, by="notification"))


def compose_title(question: Question) -> str:
    """Nothing but words of our own: what a server may have written is in the body."""
    spec = find_spec(question.call.tool_name)
    tool = spec.name if spec else "an unknown tool"
    return f"{question.decision.risk.name}: {tool} in {question.workspace}? ({question.short_binding})"


def compose_body(question: Question) -> tuple[str, bool]:
    """The parameters and the change, in honest text; and whether all of it fitted."""
    shows_change = is_diff(question.change)
    params = {
        name: value for name, value in question.call.tool_params.items() if not (shows_change and name == "content")
    }
    lines = _show_params(params, MAX_BODY_CHARS)
    if len("\n".join(lines)) > MAX_BODY_CHARS:
        lines = _show_params(params, MAX_BODY_CHARS // len(params))
    if question.decision.network:
        lines.append("! it would reach the network")
    body = "\n".join([*lines, *_changed_lines(question.change)])
    return body, _LEFT_OUT not in body


def _show_params(params: dict[str, Any], max_chars: int) -> list[str]:
    """A line each, so long at most."""
    return [
        f"{fit(name, MAX_NAME_CHARS, reveal_value, _HINT)}: {show_value(value, max_chars, _HINT)}"
        for name, value in params.items()
    ]


def _changed_lines(change: str) -> list[str]:
    if not change:
        return []
    if not is_diff(change):
        return [fit(change, MAX_BODY_CHARS, reveal, _HINT)]
    added, removed = count_changes(change)
    lines = [line for line in change.split("\n")[2:] if line[:1] in ("+", "-")]
    shown = [fit(line, MAX_LINE_CHARS, reveal_content, _HINT) for line in lines[:MAX_CHANGED_LINES]]
    rest = len(lines) - len(shown)
    return [f"+{added} −{removed} lines", *shown, *([f"⟨{rest} changed lines {_LEFT_OUT}"] if rest else [])]
