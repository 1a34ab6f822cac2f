"""The records of calls and approvals, and the one way in which a call moves from state to state."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Row, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from client_agent.protocol.states import CallState
from client_agent.server.models import ERROR_MAX_CHARS, Approval, ToolExecution
from client_agent.server.problems import Conflict, NotFound
from client_agent.server.wire import NULL, ExecuteReply, Record, RecordSummary


class ApprovalState(StrEnum):
    """The states of a question; only a pending one can change."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class CallFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which records of a project are wanted."""

    project_id: str
    status: str | None = None
    tool_name: str | None = None
    session_id: str | None = None
    limit: int = 50
    offset: int = 0


def now() -> datetime:
    return datetime.now(UTC)


def advance(state: CallState, *path: CallState) -> CallState:
    """The end of this path, every step of which the state machine must allow."""
    for following in path:
        if not state.may_become(following):
            raise Conflict(f"a call that is {state.lower()} cannot become {following.lower()}")
        state = following
    return state


async def insert_call(connection: AsyncConnection, values: dict[str, Any], *path: CallState) -> ExecuteReply:
    """A new record, taken along this path from PENDING."""
    row = {**values, "status": advance(CallState.PENDING, *path)}
    await connection.execute(insert(ToolExecution).values(**row))
    return _reply(row)


async def move_call(connection: AsyncConnection, call: Row[Any], *path: CallState, **values: Any) -> ExecuteReply:
    """Takes the call along this path, with what is to be recorded about it. Raises Conflict."""
    old = CallState(call.status)
    values |= {"status": advance(old, *path)}
    if "error" in values:
        values["error"] = values["error"][:ERROR_MAX_CHARS]
    statement = update(ToolExecution).where(ToolExecution.id == call.id, ToolExecution.status == old).values(**values)
    if (await connection.execute(statement)).rowcount != 1:
        raise Conflict(f"the call is no longer {old.lower()}")
    return _reply({**call._mapping, **values})


async def end_call(
    connection: AsyncConnection, call: Row[Any], state: CallState, error_type: str, error: str
) -> ExecuteReply:
    """The call is over without a result of the client."""
    return await move_call(connection, call, state, error_type=error_type, error=error, completed_at=now())


def describe_outcome(call: Row[Any]) -> ExecuteReply:
    return _reply(dict(call._mapping))


def _reply(row: dict[str, Any]) -> ExecuteReply:
    return ExecuteReply(
        tool_id=row["id"],
        tool_name=row["tool_name"],
        status=CallState(row["status"]).lower(),
        result=row.get("result") or NULL,
        error=row.get("error"),
        approval_id=row.get("approval_id"),
    )


_CALL_COLUMNS = ToolExecution.__table__.columns
_SUMMARY_COLUMNS = [column for column in _CALL_COLUMNS if column.key != "result"]


async def find_call(connection: AsyncConnection, project_id: str, tool_id: str) -> Row[Any]:
    """The whole record. Raises NotFound, also for a call of another project."""
    query = select(*_CALL_COLUMNS).where(ToolExecution.id == tool_id, ToolExecution.project_id == project_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise NotFound(f"there is no tool execution {tool_id!r}")
    return row


async def find_approval(connection: AsyncConnection, project_id: str, approval_id: str) -> Row[Any]:
    query = select(*Approval.__table__.columns).where(Approval.id == approval_id, Approval.project_id == project_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise NotFound(f"there is no approval {approval_id!r}")
    return row


async def close_approval(
    connection: AsyncConnection, approval_id: str, state: ApprovalState, reason: str | None = None
) -> None:
    """Answers a pending question, for good. Raises Conflict."""
    statement = (
        update(Approval)
        .where(Approval.id == approval_id, Approval.status == ApprovalState.PENDING)
        .values(status=state, reason=reason, decided_at=now())
    )
    if (await connection.execute(statement)).rowcount != 1:
        raise Conflict("the approval has been decided already")


def to_record(row: Row[Any]) -> Record:
    return Record(result=row.result or NULL, **_summary_values(row))


async def list_calls(connection: AsyncConnection, wanted: CallFilter) -> tuple[list[RecordSummary], int]:
    """One page of records, the newest first, and how many there are in all."""
    conditions: list[ColumnElement[bool]] = [ToolExecution.project_id == wanted.project_id]
    if wanted.status is not None:
        conditions.append(ToolExecution.status == wanted.status)
    if wanted.tool_name is not None:
        conditions.append(ToolExecution.tool_name == wanted.tool_name)
    if wanted.session_id is not None:
        conditions.append(ToolExecution.session_id == wanted.session_id)
    newest_first = (ToolExecution.created_at.desc(), ToolExecution.id)
    page = select(*_SUMMARY_COLUMNS).where(*conditions).order_by(*newest_first)
    rows = (await connection.execute(page.limit(wanted.limit).offset(wanted.offset))).all()
    total = (await connection.execute(select(func.count()).select_from(ToolExecution).where(*conditions))).scalar_one()
    return [RecordSummary(**_summary_values(row)) for row in rows], total


def _summary_values(row: Row[Any]) -> dict[str, Any]:
    values = {column.key: getattr(row, column.key) for column in _SUMMARY_COLUMNS}
    return {**values, "status": row.status.lower()}
