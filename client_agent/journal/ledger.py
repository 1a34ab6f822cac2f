"""The calls of one workspace: which are known, how far each has come, and what may happen next.

Every step is decided in memory, at once and in order, and reaches the disk through the writer. What must be on disk
before the caller goes on is awaited: the start of a call with effects, and its result. A command that can change
nothing must not run twice either; its start is written before, but need not survive a loss of power.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from client_agent.errors import JournalError
from client_agent.journal.outbox import Outbox, Slot
from client_agent.journal.reader import Reader
from client_agent.journal.records import (
    Admission,
    CallRecord,
    OpenCall,
    PostKind,
    Standing,
)
from client_agent.journal.writer import CallEntry, Durability, Writer
from client_agent.policy.decision import Decision, Verdict
from client_agent.protocol.calls import Call
from client_agent.protocol.results import CallResult, failed
from client_agent.protocol.states import CallState

MAX_BACKLOG = 20_000  # calls and posts not stored yet


class Ledger:
    """The calls and the outbox of one workspace. Get it from `Journal.recover`."""

    def __init__(self, workspace: str, writer: Writer, reader: Reader, now: Callable[[], float]) -> None:
        self.workspace = workspace
        self.outbox = Outbox(workspace, writer, reader, now)
        self._writer = writer
        self._reader = reader
        self._now = now
        self._calls: dict[str, CallEntry] = {}
        self._position = reader.position(workspace)

    @property
    def last_event_id(self) -> str:
        """The last event handled: where the stream is resumed."""
        return self._position

    def handled(self, event_id: str) -> None:
        """An event was handled; stored together with everything done so far. A call that was admitted by it says so."""
        if event_id != self._position:
            with self._writer.lock:
                self._move_to(event_id)

    def find(self, tool_id: str) -> CallRecord | None:
        """How a call stands. Raises JournalError when the disk cannot be read."""
        with self._writer.lock:
            return self._find(tool_id)

    # The steps of a call, in their order.

    def admit(self, call: Call, *, effects: bool, event_id: str | None = None) -> Admission:
        """Take a call in, or say what is known of it. A finished one's result is on its way again when this returns.

        Raises JournalError when it cannot be told whether the call is known, or too much is waiting for the disk.
        """
        fingerprint = call.fingerprint
        with self._writer.lock:
            self._expect_room()
            known = self._find(call.tool_id)
            if known is not None and known.fingerprint != fingerprint and self._may_amend(call, known):
                admission: Admission | None = Admission(Standing.AMENDED, self._enter(call, fingerprint, effects))
            else:
                admission = self._recognise(call, known, fingerprint) if known is not None else None
            if admission is not None and admission.standing is Standing.UNFINISHED:
                self._signal(call)
            if admission is None:
                admission = Admission(Standing.NEW, self._enter(call, fingerprint, effects))
            if event_id is not None:
                self._move_to(event_id)
            return admission

    def decide(
        self, tool_id: str, decision: Decision, *, rule_id: str | None = None, grant_id: str | None = None
    ) -> CallRecord:
        """Note a decision: a call that may run is APPROVED, one that must ask waits, a refused one has yet to end.

        May be said again before the call starts. One that was approved already stays so, and needs no second question.
        """
        with self._writer.lock:
            entry = self._entry(tool_id)
            return self._pass(
                entry,
                _after(decision.verdict, entry.record),
                risk=decision.risk.name,
                verdict=decision.verdict.value,
                decision_code=decision.code,
                reasons=decision.reasons,
                rule_id=rule_id,
                grant_id=grant_id,
                decided_at=self._now(),
            )

    def approve(
        self, tool_id: str, *, approver: str, grant_id: str | None = None, answer: bytes | None = None
    ) -> CallRecord:
        """The user said yes, or the policy had. `answer` is sent to the server where it had asked for an approval."""
        with self._writer.lock:
            entry = self._entry(tool_id)
            record = self._pass(
                entry, CallState.APPROVED, approver=approver, grant_id=grant_id or entry.record.grant_id
            )
            self._answer(PostKind.APPROVE, record, answer)
            return record

    def answer(self, tool_id: str, *, approver: str, answer: bytes) -> CallRecord:
        """The user said yes to a question that was all there is to this call: with its answer it has ended."""
        with self._writer.lock:
            entry = self._entry(tool_id)
            record = self._pass(entry, CallState.APPROVED, approver=approver)
            self._answer(PostKind.APPROVE, record, answer)
            self._step(entry, CallState.EXECUTING, started_at=self._now())
            return self._step(entry, CallState.COMPLETED, finished_at=self._now())

    async def begin(self, tool_id: str, durability: Durability = Durability.DURABLE) -> CallRecord:
        """The call is about to be executed: when this returns it may be, and never again after.

        Waits for the disk when the call has effects, or when the last write failed; no longer than until its start is
        written when that is all that was asked for. On JournalError it must not be executed, and is as it was; a caller
        that is cancelled here must finish the call.
        """
        with self._writer.lock:
            entry = self._entry(tool_id)
            before = entry.record
            record = self._step(entry, CallState.EXECUTING, started_at=self._now())
            entry.waits = record.effects and durability is Durability.DURABLE
            stored = self._writer.stored(durability) if record.effects or self._writer.trouble else None
        if stored is not None:
            try:
                await stored
            except JournalError:
                self._undo(entry, record, before)
                raise
        return record

    async def finish(
        self,
        tool_id: str,
        state: CallState,
        body: bytes | None,
        *,
        failure_code: str | None = None,
        approver: str | None = None,
        answer: bytes | None = None,
    ) -> CallRecord:
        """The call has ended so, and `body` is its result, which goes to the outbox with the same commit.

        None stands for a call that the server only asked about: `answer` is all it is told.

        Waits for the disk when its start had to be durable. On JournalError the result of a call that was executed
        is kept in memory, and sent when it could be stored; any other is sent all the same, without an error here.
        """
        changes: dict[str, Any] = {"failure_code": failure_code, "finished_at": self._now()}
        if approver is not None:
            changes["approver"] = approver
        with self._writer.lock:
            entry = self._entry(tool_id)
            record = self._step(entry, state, **changes)
            self._answer(PostKind.REJECT, record, answer)
            slot = self._put_result(entry, body) if body is not None else None
            durability = Durability.DURABLE if entry.waits else Durability.WRITTEN
            stored = self._writer.stored(durability) if entry.waits or self._writer.is_behind else None
        if stored is not None:
            try:
                await stored
                await asyncio.sleep(0)  # the result leaves before anything else is done about it
            except JournalError:
                if record.effects and record.started_at is not None:
                    raise
                if slot is not None:
                    with self._writer.lock:
                        self.outbox.release(slot)
        return record

    def refuse(self, tool_id: str, body: bytes, *, event_id: str | None = None) -> None:
        """Answer an event that is no call of its own: malformed, or in conflict with one that is known."""
        with self._writer.lock:
            self._expect_room()
            self.outbox.push(self.outbox.put(PostKind.REFUSAL, tool_id, body))
            if event_id is not None:
                self._move_to(event_id)

    # After a restart.

    def recover(self) -> tuple[list[CallRecord], list[OpenCall]]:
        """What an earlier run left: calls it was executing, now failed as `interrupted`; and those it had not started.

        One not started is given back to be judged, and asked, again; without its parameters, which are not kept when
        they are large, it is failed as `not_started` instead.
        """
        settled: list[CallRecord] = []
        left_open: list[OpenCall] = []
        with self._writer.lock:
            for record, call in self._reader.unfinished_calls(self.workspace):
                entry = self._calls[record.tool_id] = CallEntry(record, call, self._calls)
                if record.startable and call is not None:
                    left_open.append(OpenCall(call, record))
                else:
                    settled.append(self._fail(entry, _NOT_STARTED if record.startable else _INTERRUPTED))
        return settled, left_open

    def _fail(self, entry: CallEntry, result: CallResult) -> CallRecord:
        code = result.failure.code if result.failure else None
        record = self._step(entry, CallState.FAILED, failure_code=code, finished_at=self._now())
        self.outbox.push(self.outbox.put(PostKind.RESULT, record.tool_id, _encode(result)))
        return record

    # With the writer's lock held.

    def _find(self, tool_id: str) -> CallRecord | None:
        entry = self._calls.get(tool_id)
        return entry.record if entry is not None else self._reader.call(self.workspace, tool_id)

    def _expect_room(self) -> None:
        if self._writer.backlog >= MAX_BACKLOG:
            raise JournalError("too much waits for the disk: nothing more is taken in", code="journal_behind")

    def _entry(self, tool_id: str) -> CallEntry:
        entry = self._calls.get(tool_id)
        if entry is None:
            raise JournalError(f"no unfinished call {tool_id!r} in {self.workspace!r}", code="unknown_call")
        return entry

    def _recognise(self, call: Call, known: CallRecord, fingerprint: str) -> Admission | None:
        """What a call that is known is now; None when it may simply run again."""
        if known.fingerprint != fingerprint:
            return Admission(Standing.CONFLICT, known)
        if not known.state.final:
            return Admission(Standing.UNFINISHED, known)
        if call.awaits_signal and known.approval_id is not None:
            for kind in (PostKind.REJECT, PostKind.APPROVE):
                self.outbox.send_again(kind, known.approval_id)
        elif not self.outbox.send_again(PostKind.RESULT, known.tool_id):
            if known.started_at is not None and not known.effects:
                return None
            instead = _FORGOTTEN if known.started_at is not None else _ENDED
            self.outbox.push(self.outbox.put(PostKind.RESULT, known.tool_id, _encode(instead)))
        return Admission(Standing.FINISHED, known)

    def _may_amend(self, call: Call, known: CallRecord) -> bool:
        """Whether this signal takes the place of what the server had only asked about. What was approved is void."""
        entry = self._calls.get(known.tool_id)
        asked = entry is not None and entry.call is not None and entry.call.awaits_signal
        return asked and known.startable and not call.awaits_signal

    def _signal(self, call: Call) -> None:
        """The server now wants what it had only asked about: remembered, so that a restart goes on with it."""
        entry = self._entry(call.tool_id)
        if entry.call is not None and entry.call.awaits_signal and not call.awaits_signal:
            entry.call = call
            self._writer.touch_call(entry)

    def _enter(self, call: Call, fingerprint: str, effects: bool) -> CallRecord:
        record = CallRecord(
            workspace=self.workspace,
            tool_id=call.tool_id,
            fingerprint=fingerprint,
            tool_name=call.tool_name,
            effects=effects,
            state=CallState.PENDING,
            created_at=self._now(),
            session_id=call.session_id,
            approval_id=call.approval_id,
            user_id=call.user_id,
        )
        entry = self._calls[call.tool_id] = CallEntry(record, call, self._calls)
        self._writer.touch_call(entry)
        return record

    def _pass(self, entry: CallEntry, state: CallState, **changes: Any) -> CallRecord:
        """A step that may already have been taken."""
        return (self._change if entry.record.state is state else self._step)(entry, state, **changes)

    def _step(self, entry: CallEntry, state: CallState, **changes: Any) -> CallRecord:
        now = entry.record.state
        if not now.may_become(state):
            message = f"call {entry.record.tool_id!r} cannot become {state.value}: it is {now.value}"
            raise JournalError(message, code="illegal_step")
        return self._change(entry, state, **changes)

    def _change(self, entry: CallEntry, state: CallState, **changes: Any) -> CallRecord:
        entry.record = msgspec.structs.replace(entry.record, state=state, **changes)
        self._writer.touch_call(entry)
        return entry.record

    def _put_result(self, entry: CallEntry, body: bytes) -> Slot:
        slot = self.outbox.put(PostKind.RESULT, entry.record.tool_id, body)
        slot.keeps_body = entry.record.effects  # whatever has none can be run again
        slot.held = entry.waits
        if not slot.held:
            self.outbox.push(slot)
        return slot

    def _answer(self, kind: PostKind, record: CallRecord, answer: bytes | None) -> None:
        if answer is not None and record.approval_id is not None:
            self.outbox.push(self.outbox.put(kind, record.approval_id, answer))

    def _move_to(self, event_id: str) -> None:
        self._position = event_id
        self._writer.touch_position(self.workspace, event_id)

    def _undo(self, entry: CallEntry, record: CallRecord, before: CallRecord) -> None:
        """Take a step back that could not be stored: nothing came of it."""
        with self._writer.lock:
            if entry.record is record:
                entry.record = before
                self._writer.touch_call(entry)


def _after(verdict: Verdict, record: CallRecord) -> CallState:
    """The state that a decision leads to."""
    if verdict is Verdict.REFUSE or record.state is CallState.APPROVED:
        return record.state
    return CallState.APPROVED if verdict is Verdict.RUN else CallState.AWAITING_APPROVAL


def _encode(result: CallResult) -> bytes:
    return msgspec.json.encode(result.to_wire())


_INTERRUPTED = failed(
    "interrupted",
    "the client stopped while this call was running: its outcome is unknown, and it is not run again by itself",
    type="InterruptedError",
)
_NOT_STARTED = failed(
    "not_started",
    "the client stopped before this call was started: nothing was done, and it may be sent again",
    type="InterruptedError",
)
_ENDED = failed(
    "not_approved",
    "this call was refused before: it is not taken up again, under this id",
    type="SecurityError",
)
_FORGOTTEN = failed(
    "result_forgotten",
    "this call was carried out long ago: it is not run again, and its result is no longer kept",
    type="ConflictError",
)
