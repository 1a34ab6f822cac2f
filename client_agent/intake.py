"""The calls of one workspace from when they are taken in until they have ended: each started once, and not too many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from client_agent.approvals.honest import reveal
from client_agent.dispatch import Approval, Dispatcher, Signal
from client_agent.errors import JournalError
from client_agent.journal.ledger import Ledger
from client_agent.journal.records import OpenCall, Standing
from client_agent.policy.decision import Risk
from client_agent.protocol.calls import Call
from client_agent.protocol.results import failed
from client_agent.protocol.states import CallState
from client_agent.protocol.tools import find_spec
from client_agent.recording import POLICY

# Calls taken in and not finished, questions included. Beyond it the stream is not read on: the server keeps the rest.
MAX_OPEN_CALLS = 2000
STOP_GRACE_S = 5.0

log = logging.getLogger(__name__)


class Intake:
    """`calls` are those under way: executing, or waiting for an answer or a signal.

    `left_open`: by an earlier run. `on_ended` is awaited after each, by a task that nothing depends on any more.
    """

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        dispatcher: Dispatcher,
        left_open: Iterable[OpenCall],
        on_ended: Callable[[], Awaitable[None]],
    ) -> None:
        self._name = name
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._left_open = list(left_open)
        self._on_ended = on_ended
        self.calls: dict[str, asyncio.Task[None]] = {}
        self._signals: dict[str, Signal] = {}
        self._room = asyncio.Semaphore(MAX_OPEN_CALLS)

    async def take_in(self, call: Call, event_id: str) -> None:
        """Starts a new call; a known one is signalled, judged anew, answered again, or refused, and never run twice."""
        admission = self._ledger.admit(call, effects=_has_effects(call), event_id=event_id)
        match admission.standing:
            case Standing.NEW:
                await self._start(call)
            case Standing.UNFINISHED if not call.awaits_signal and call.tool_id in self._signals:
                self._signals[call.tool_id].give(call)
            case Standing.AMENDED if call.tool_id in self._signals:
                self._signals[call.tool_id].give(call)
                self._dispatcher.withdraw_question(
                    call.tool_id, "the server signals other parameters than it asked about"
                )
            case Standing.AMENDED:
                await self._start(call)
            case Standing.CONFLICT if call.asked_for is None:
                self.refuse(call.tool_id, "conflict", "this tool_id was used before, with other parameters")
            case _:
                log.debug("%s: %s is known: %s", self._name, call.tool_id, admission.standing)

    async def _start(self, call: Call, before: Approval | None = None) -> None:
        try:
            await self._room.acquire()
        except asyncio.CancelledError:
            if (record := self._ledger.find(call.tool_id)) is not None:
                self._left_open.append(OpenCall(call, record))  # taken in already: begun when there is service again
            raise
        signal = None
        if call.awaits_signal:
            signal = self._signals[call.tool_id] = Signal()
        task = asyncio.create_task(self._carry_out(call, signal, before), name=call.tool_id)
        self.calls[call.tool_id] = task

    async def _carry_out(self, call: Call, signal: Signal | None, before: Approval | None) -> None:
        try:
            result = await self._dispatcher.carry_out(call, signal, before)
            spec = find_spec(call.tool_name)
            if result.failure is not None:
                log.info(
                    "%s: %s: %s (%s)", self._name, call.tool_name, reveal(result.failure.message), call.tool_id[:8]
                )
            elif spec is not None and spec.effects:
                log.info("%s: %s: done (%s)", self._name, call.tool_name, call.tool_id[:8])
        except JournalError as error:
            log.warning("%s: what became of %s could not be recorded: %s", self._name, call.tool_name, error.message)
        except Exception:
            log.exception("%s: %s was lost on its way", self._name, call.tool_name)
        finally:
            self._room.release()
            self.calls.pop(call.tool_id, None)
            self._signals.pop(call.tool_id, None)
        await self._on_ended()

    async def resume(self) -> None:
        """Takes up what an earlier run had not started; a yes given then still counts."""
        while self._left_open:
            item = self._left_open.pop(0)
            record, before = item.record, None
            if record.state is CallState.APPROVED and record.risk is not None:
                before = Approval(Risk[record.risk], by_person=record.approver not in (None, POLICY))
            await self._start(item.call, before)

    def refuse(self, tool_id: str, code: str, message: str) -> None:
        body = msgspec.json.encode(failed(code, message, type="ValidationError").to_wire())
        self._ledger.refuse(tool_id, body)

    async def finish_begun(self) -> None:
        """Lets what has begun end. What has not stays open in the journal."""
        begun = [task for tool_id, task in self.calls.items() if self._has_begun(tool_id)]
        await end_tasks([task for task in self.calls.values() if task not in begun])
        if begun:
            await asyncio.wait(begun)

    def _has_begun(self, tool_id: str) -> bool:
        record = self._ledger.find(tool_id)
        return record is not None and not record.startable

    async def stop(self) -> None:
        """Calls under way may end; those that wait for somebody stay open in the journal and are asked again."""
        for task in self.calls.values():
            task.cancel()
        if self.calls:
            await asyncio.wait(self.calls.values(), timeout=STOP_GRACE_S)


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels them, and waits until they are gone."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)


def _has_effects(call: Call) -> bool:
    """Whether carrying it out may change something; a tool that is not known may."""
    spec = find_spec(call.tool_name)
    return call.asked_for is None and (spec is None or spec.effects)
