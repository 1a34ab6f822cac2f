"""The life of a call on the server: judged, signalled or asked about, answered or cancelled.

Every step is one short transaction of rows and events together; agents and deadlines are told after the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeAlias
from uuid import uuid4

import msgspec
from sqlalchemy import Row, select, update

from client_agent.policy.decision import Verdict
from client_agent.policy.judge import Judge
from client_agent.policy.paths import inspect_spelling
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState
from client_agent.server.approvals import Approvals
from client_agent.server.events import EXECUTION_SIGNAL, RESULT_ACK, EventLog, Transaction
from client_agent.server.models import ToolExecution
from client_agent.server.payloads import (
    Origin,
    call_reply,
    check_result,
    is_same_result,
    new_record,
    refusal_values,
    result_values,
    signal,
)
from client_agent.server.problems import Conflict
from client_agent.server.records import (
    ApprovalState,
    close_approval,
    describe_outcome,
    end_call,
    find_call,
    insert_call,
    move_call,
    now,
)
from client_agent.server.settings import ServerSettings
from client_agent.server.waits import Deadlines, Watches
from client_agent.server.wire import CallReply, ExecuteBody, ExecuteReply, ResultBody

CANCELLED = "Cancelled"

Wait: TypeAlias = Callable[[], Awaitable[None]]


class Executions:
    """All calls of all projects."""

    def __init__(self, settings: ServerSettings, log: EventLog) -> None:
        self._cancel_grace_s = settings.cancel_grace_s
        self._log = log
        self._judge = Judge(settings.workspace)
        self._watches = Watches(settings.result_timeout_s)
        self._deadlines = Deadlines()
        self.approvals = Approvals(settings.approvals, log, self._watches, self._deadlines)

    async def open(self) -> None:
        """Takes up the deadlines that were running when the server last stopped."""
        await self.approvals.restore()
        query = select(ToolExecution.project_id, ToolExecution.id, ToolExecution.cancel_requested_at).where(
            ToolExecution.status == CallState.EXECUTING, ToolExecution.cancel_requested_at.is_not(None)
        )
        async with self._log.database.read() as connection:
            for row in (await connection.execute(query)).all():
                self._set_grace(row.project_id, row.id, row.cancel_requested_at)

    def release_agents(self) -> None:
        """Answers all blocked agents with what is known: the server is about to stop."""
        self._watches.close()

    async def close(self) -> None:
        self.release_agents()
        await self._deadlines.close()

    async def execute(self, origin: Origin, asked: ExecuteBody, gone: Wait) -> ExecuteReply:
        """Blocks until the outcome of the call, and answers with it.

        It answers earlier, with the call's present status and an `error` that says why, when the client gives no
        result within `result_timeout_s` of the signal (the call stays EXECUTING, a later result is still taken), and
        when the server stops. When `gone` comes first the agent is no longer there: the call is cancelled.
        """
        tool_id = str(uuid4())
        watch = self._watches.open(tool_id)
        try:
            reply = await self.submit(origin, asked, tool_id)
            if await _comes_first(gone, watch.done) and not watch.done.is_set():
                with suppress(Conflict):  # it may finish at this very moment
                    await self.cancel(origin.project_id, tool_id, "the agent no longer waits")
            return watch.reply or reply
        finally:
            self._watches.drop(tool_id)

    async def submit(self, origin: Origin, asked: ExecuteBody, tool_id: str | None = None) -> ExecuteReply:
        """Judges the call, and refuses it, signals it or asks about it. Waits for nobody."""
        call = Call(
            tool_id=tool_id or str(uuid4()),
            tool_name=asked.tool_name,
            tool_params=asked.tool_params,
            session_id=asked.session_id,
            user_id=origin.user_id,
        )
        decision = self._judge.decide(call, inspect_spelling)
        record = new_record(call, origin, decision)
        match decision.verdict:
            case Verdict.RUN:
                reply = await self._run(record, call)
            case Verdict.ASK:
                reply = await self.approvals.ask(record, call, decision)
            case _:
                async with self._log.transaction() as tx:
                    reply = await insert_call(tx.connection, record | refusal_values(decision), CallState.FAILED)
        self._watches.note(reply)
        return reply

    async def _run(self, record: dict[str, Any], call: Call) -> ExecuteReply:
        path = (CallState.APPROVED, CallState.EXECUTING)
        async with self._log.transaction() as tx:
            reply = await insert_call(tx.connection, record | {"approved_at": now()}, *path)
            await tx.append(record["project_id"], EXECUTION_SIGNAL, signal(msgspec.structs.asdict(call)))
        return reply

    async def finish(self, project_id: str, tool_id: str, body: ResultBody) -> CallReply:
        """The client says what became of a signalled call. The same again changes nothing, other words: Conflict."""
        check_result(body)
        async with self._log.transaction() as tx:
            call = await find_call(tx.connection, project_id, tool_id)
            state = CallState(call.status)
            if state is not CallState.EXECUTING:
                if not is_same_result(call, body):
                    raise Conflict(f"the call is {state.lower()}: this result cannot be taken")
                return call_reply(describe_outcome(call), "Tool result had been processed before")
            reply = await move_call(tx.connection, call, CallState(body.status.upper()), **result_values(call, body))
            await tx.settle(tool_id)
            await tx.append(project_id, RESULT_ACK, {"tool_id": tool_id, "status": "received", "timestamp": now()})
        self._deadlines.drop(tool_id)
        self._watches.note(reply)
        return call_reply(reply, "Tool result processed")

    async def cancel(self, project_id: str, tool_id: str, reason: str) -> CallReply:
        """Takes a call back. The same again changes nothing; a call that is over is a Conflict.

        One that waits for the user fails at once. One that is executing is for the client to stop: it stays EXECUTING
        until the client says what became of it, or until `cancel_grace_s` is over.
        """
        async with self._log.transaction() as tx:
            call = await find_call(tx.connection, project_id, tool_id)
            state = CallState(call.status)
            if call.error_type == CANCELLED or call.cancel_requested_at is not None:
                return call_reply(describe_outcome(call), "The call had been cancelled before")
            if state.final:
                raise Conflict(f"the call is {state.lower()}: it can no longer be cancelled")
            if state is CallState.EXECUTING:
                await _mark_cancelled(tx, call)
                reply = describe_outcome(call)
            else:
                await close_approval(tx.connection, call.approval_id, ApprovalState.CANCELLED, reason)
                reply = await end_call(tx.connection, call, CallState.FAILED, CANCELLED, f"Cancelled: {reason}")
            await tx.withdraw(project_id, tool_id, reason)
        if state is CallState.EXECUTING:
            self._set_grace(project_id, tool_id, now())
            return call_reply(reply, "The client has been told to stop")
        self.approvals.settle(call.approval_id, reply)
        return call_reply(reply, "The call has been cancelled")

    def _set_grace(self, project_id: str, tool_id: str, since: datetime) -> None:
        delay_s = self._cancel_grace_s - (now() - since).total_seconds()
        self._deadlines.set(tool_id, delay_s, lambda: self._abandon(project_id, tool_id))

    async def _abandon(self, project_id: str, tool_id: str) -> None:
        """The client has not said what became of a cancelled call: nobody waits any longer."""
        words = "Cancelled; the client did not say what became of the call: its outcome is unknown"
        async with self._log.transaction() as tx:
            call = await find_call(tx.connection, project_id, tool_id)
            if CallState(call.status).final:
                return
            reply = await end_call(tx.connection, call, CallState.FAILED, CANCELLED, words)
        self._watches.note(reply)


async def _mark_cancelled(tx: Transaction, call: Row[Any]) -> None:
    statement = update(ToolExecution).where(ToolExecution.id == call.id).values(cancel_requested_at=now())
    await tx.connection.execute(statement)


async def _comes_first(gone: Wait, done: asyncio.Event) -> bool:
    """Whether `gone` happens before, or at the same time as, `done`."""
    if done.is_set():
        return False
    leaving, waiting = asyncio.ensure_future(gone()), asyncio.ensure_future(done.wait())
    try:
        await asyncio.wait({leaving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        return leaving.done()
    finally:
        leaving.cancel()
        waiting.cancel()
