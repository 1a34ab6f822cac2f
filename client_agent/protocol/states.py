"""The states of a call, the same in the server's record and in the local journal."""

from __future__ import annotations

from enum import StrEnum


class CallState(StrEnum):
    PENDING = "PENDING"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    APPROVED = "APPROVED"
    EXECUTING = "EXECUTING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    REJECTED = "REJECTED"
    TIMEOUT = "TIMEOUT"

    @property
    def final(self) -> bool:
        return not _NEXT[self]

    def may_become(self, other: CallState) -> bool:
        return other in _NEXT[self]


_NEXT: dict[CallState, frozenset[CallState]] = {
    CallState.PENDING: frozenset({CallState.AWAITING_APPROVAL, CallState.APPROVED, CallState.FAILED}),
    CallState.AWAITING_APPROVAL: frozenset(
        {CallState.APPROVED, CallState.REJECTED, CallState.TIMEOUT, CallState.FAILED}
    ),
    CallState.APPROVED: frozenset({CallState.EXECUTING, CallState.FAILED}),
    CallState.EXECUTING: frozenset({CallState.COMPLETED, CallState.FAILED}),
    CallState.COMPLETED: frozenset(),
    CallState.FAILED: frozenset(),
    CallState.REJECTED: frozenset(),
    CallState.TIMEOUT: frozenset(),
}
