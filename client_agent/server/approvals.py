"""Questions to the user: asked, answered once, or timed out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Row, insert, select

from client_agent.config import Approvals as Timeouts
from client_agent.policy.decision import Decision, Risk
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState
from client_agent.server.events import APPROVAL_REQUEST, EXECUTION_SIGNAL, EventLog, Transaction
from client_agent.server.models import Approval
from client_agent.server.payloads import question, signal
from client_agent.server.problems import Conflict
from client_agent.server.records import (
    ApprovalState,
    close_approval,
    end_call,
    find_approval,
    find_call,
    insert_call,
    move_call,
    now,
)
from client_agent.server.waits import Deadlines, Watches
from client_agent.server.wire import ApprovalReply, ExecuteReply

TIMEOUT_ERROR = "Approval timeout"


class Approvals:
    """All questions of all projects. An answer is final: the same again changes nothing, another is a Conflict."""

    def __init__(self, timeouts: Timeouts, log: EventLog, watches: Watches, deadlines: Deadlines) -> None:
        self._timeouts = timeouts
        self._log = log
        self._watches = watches
        self._deadlines = deadlines

    async def ask(self, record: dict[str, Any], call: Call, decision: Decision) -> ExecuteReply:
        """Records the call as waiting for the user, and asks."""
        record = {**record, "approval_id": str(uuid4())}
        timeout_s = self._timeouts.high_timeout_s if decision.risk is Risk.HIGH else self._timeouts.medium_timeout_s
        approval = {
            "id": record["approval_id"],
            "project_id": record["project_id"],
            "tool_id": call.tool_id,
            "status": ApprovalState.PENDING,
            "created_at": record["created_at"],
            "expires_at": record["created_at"] + timedelta(seconds=timeout_s),
        }
        async with self._log.transaction() as tx:
            reply = await insert_call(tx.connection, record, CallState.AWAITING_APPROVAL)
            await tx.connection.execute(insert(Approval).values(**approval))
            await tx.append(record["project_id"], APPROVAL_REQUEST, question(record, call, decision, timeout_s))
        self._set_expiry(approval["project_id"], approval["id"], approval["expires_at"])
        return reply

    async def approve(self, project_id: str, approval_id: str) -> ApprovalReply:
        """The user says yes: the call is signalled."""
        answer = ApprovalReply(success=True, approval_id=approval_id, status=ApprovalState.APPROVED)
        async with self._log.transaction() as tx:
            call = await _find_asked(tx, project_id, answer)
            if call is None:
                return answer
            await close_approval(tx.connection, approval_id, ApprovalState.APPROVED)
            asked = await tx.find_open(call.id, APPROVAL_REQUEST)
            await tx.settle(call.id)
            path = (CallState.APPROVED, CallState.EXECUTING)
            reply = await move_call(tx.connection, call, *path, approved_at=now())
            await tx.append(project_id, EXECUTION_SIGNAL, signal(asked))
        self.settle(approval_id, reply)
        return answer

    async def reject(self, project_id: str, approval_id: str, reason: str | None) -> ApprovalReply:
        """The user says no, or said nothing in time: the call is over."""
        if reason == TIMEOUT_ERROR:  # the laptop's clock, which need not agree with ours
            state, ended, kind, words = ApprovalState.TIMEOUT, CallState.TIMEOUT, "ApprovalTimeout", TIMEOUT_ERROR
        else:
            state, ended, kind = ApprovalState.REJECTED, CallState.REJECTED, "ApprovalRejected"
            words = f"Rejected by the user: {reason}" if reason else "Rejected by the user"
        answer = ApprovalReply(success=True, approval_id=approval_id, status=state)
        async with self._log.transaction() as tx:
            call = await _find_asked(tx, project_id, answer)
            if call is None:
                return answer
            await close_approval(tx.connection, approval_id, state, reason)
            reply = await end_call(tx.connection, call, ended, kind, words)
            await tx.withdraw(project_id, call.id, words)
        self.settle(approval_id, reply)
        return answer

    def settle(self, approval_id: str, reply: ExecuteReply) -> None:
        """The question is answered: no deadline any more, and the agent hears how its call stands."""
        self._deadlines.drop(approval_id)
        self._watches.note(reply)

    async def restore(self) -> None:
        """Takes up the deadlines that were running when the server last stopped."""
        query = select(Approval.project_id, Approval.id, Approval.expires_at)
        async with self._log.database.read() as connection:
            rows = await connection.execute(query.where(Approval.status == ApprovalState.PENDING))
            for row in rows.all():
                self._set_expiry(row.project_id, row.id, row.expires_at)

    def _set_expiry(self, project_id: str, approval_id: str, expires_at: datetime) -> None:
        delay_s = (expires_at - now()).total_seconds()
        self._deadlines.set(approval_id, delay_s, lambda: self._expire(project_id, approval_id))

    async def _expire(self, project_id: str, approval_id: str) -> None:
        async with self._log.transaction() as tx:
            approval = await find_approval(tx.connection, project_id, approval_id)
            if approval.status != ApprovalState.PENDING:
                return
            call = await find_call(tx.connection, project_id, approval.tool_id)
            await close_approval(tx.connection, approval_id, ApprovalState.TIMEOUT)
            reply = await end_call(tx.connection, call, CallState.TIMEOUT, "ApprovalTimeout", TIMEOUT_ERROR)
            await tx.withdraw(project_id, call.id, TIMEOUT_ERROR)
        self._watches.note(reply)


async def _find_asked(tx: Transaction, project_id: str, answer: ApprovalReply) -> Row[Any] | None:
    """The call that waits for this answer; None when it has been given already. Raises NotFound, Conflict."""
    approval = await find_approval(tx.connection, project_id, answer.approval_id)
    if approval.status == answer.status:
        return None
    if approval.status != ApprovalState.PENDING:
        raise Conflict(f"the approval is {approval.status} already")
    if approval.expires_at <= now():
        raise Conflict("the time to decide is over")
    return await find_call(tx.connection, project_id, approval.tool_id)
