"""What the journal keeps of a call, and of what is to be sent for it."""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from typing import Any

import msgspec

from client_agent.policy.decision import Reason
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState

# A call's own parameters are kept, so that it can be asked again after a restart, only up to this size.
MAX_REQUEST_BYTES = 1_000_000

_NOT_STARTED = frozenset({CallState.PENDING, CallState.AWAITING_APPROVAL, CallState.APPROVED})


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A call as it stands. Times are seconds since 1970, UTC."""

    workspace: str
    tool_id: str
    fingerprint: str
    tool_name: str
    effects: bool
    state: CallState
    created_at: float
    session_id: str | None = None
    approval_id: str | None = None
    user_id: str | None = None
    risk: str | None = None
    verdict: str | None = None
    decision_code: str | None = None
    reasons: tuple[Reason, ...] = ()
    rule_id: str | None = None
    grant_id: str | None = None
    approver: str | None = None
    failure_code: str | None = None
    decided_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    params: dict[str, Any] | None = None  # masked; None while in memory, and once pruned

    @property
    def startable(self) -> bool:
        """Whether it has not been started: what is started once is never started again."""
        return self.state in _NOT_STARTED


class CallOutline(msgspec.Struct, frozen=True):
    """When a call came, and what was decided."""

    created_at: float
    state: str
    verdict: str | None
    approver: str | None


class PostKind(StrEnum):
    """What is said to the server."""

    RESULT = "result"
    REFUSAL = "refusal"  # a failed result for an event that is no call of its own: malformed, or in conflict
    APPROVE = "approve"
    REJECT = "reject"


class PostState(StrEnum):
    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"  # the server will never take it; kept to be shown
    DROPPED = "dropped"  # given up by the user


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be said to the server. `target` is the tool_id, or the approval_id of an answer."""

    workspace: str
    kind: PostKind
    target: str
    state: PostState
    created_at: float
    due_at: float
    attempts: int = 0
    problem: str | None = None
    delivered_at: float | None = None
    has_body: bool = True

    @property
    def key(self) -> tuple[str, PostKind, str]:
        return self.workspace, self.kind, self.target


class Standing(StrEnum):
    """What a call that arrives is to the journal."""

    NEW = "new"
    UNFINISHED = "unfinished"  # known and being worked on
    FINISHED = "finished"  # carried out before: its result is on its way again
    AMENDED = "amended"  # was only asked about, and is now signalled with another tool or parameters: judged anew
    CONFLICT = "conflict"  # the same id with another tool or other parameters


class Admission(msgspec.Struct, frozen=True):
    """The answer to a call that arrives, with what is known of it."""

    standing: Standing
    record: CallRecord


class OpenCall(msgspec.Struct, frozen=True):
    """A call that an earlier run left before it started: it may be judged and asked again."""

    call: Call
    record: CallRecord


def call_from_row(row: sqlite3.Row) -> CallRecord:
    values = dict(row)
    values["reasons"] = msgspec.json.decode(values["reasons"] or b"[]", type=tuple[Reason, ...])
    values["params"] = msgspec.json.decode(values["params"]) if values["params"] else None
    return msgspec.convert(values, CallRecord, strict=False)


def post_from_row(row: sqlite3.Row) -> Post:
    return msgspec.convert(dict(row), Post, strict=False)
