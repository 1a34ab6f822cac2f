"""A question to the user, and the answers there are."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any

import msgspec

from client_agent.policy.decision import Decision
from client_agent.protocol.calls import Call


class Scope(StrEnum):
    """How far a yes reaches."""

    ONCE = "once"
    CLASS = "class"  # calls of the same class, for the rest of the session
    SESSION = "session"  # everything this session asks for, hard refusals excepted


class Outcome(StrEnum):
    APPROVED = "approved"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    NOBODY = "nobody"  # no channel can reach a person
    WITHDRAWN = "withdrawn"  # the server cancelled the call


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a question, and through which channel."""

    outcome: Outcome
    scope: Scope = Scope.ONCE
    reason: str = ""
    by: str = ""

    @property
    def approved(self) -> bool:
        return self.outcome is Outcome.APPROVED


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """All that a person needs to answer, bound by `binding` to exactly what would happen."""

    id: str
    workspace: str
    call: Call
    decision: Decision
    server_id: str
    timeout_s: float
    deadline: float  # on the broker's clock
    change: str = ""  # a write's unified diff

    @property
    def grantable(self) -> bool:
        """Whether a yes may reach beyond this call: it belongs to a session, and to a class."""
        return self.call.session_id is not None and self.decision.call_class is not None

    @property
    def binding(self) -> str:
        """What the answer is bound to: tool, parameters, the change shown, and what the call would get and why."""
        seen: list[Any] = [self.workspace, self.call.fingerprint, self.decision, self.change]
        return hashlib.sha256(msgspec.json.encode(seen, order="deterministic")).hexdigest()
