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
    for_s: float | None = None  # how long a yes beyond this call holds; the session, where nothing is said
    reason: str = ""
    by: str = ""

    @property
    def approved(self) -> bool:
        return self.outcome is Outcome.APPROVED


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """All that a person needs to answer. An answer that does not name its `binding` is no answer to it."""

    id: str
    workspace: str
    call: Call
    decision: Decision
    server_id: str
    timeout_s: float
    deadline: float  # on the broker's clock
    change: str = ""  # a write's unified diff
    profile: str = ""  # a hash of what commands are confined by
    rules: str = ""  # a hash of the rules it was decided by
    again: bool = False  # a yes was given before, to something that is no longer what would happen
    binding: str = ""

    def __post_init__(self) -> None:
        if not self.binding:
            msgspec.structs.force_setattr(self, "binding", self._bind())

    @property
    def grantable(self) -> bool:
        """Whether a yes may reach beyond this call: it belongs to a session, and to a class."""
        return self.call.session_id is not None and self.decision.call_class is not None

    @property
    def short_binding(self) -> str:
        """Enough of it for a person to see that two places show the same."""
        return self.binding[:8]

    def _bind(self) -> str:
        """One hash over tool, parameters, the change shown, risk and access with reasons, confinement, and rules."""
        seen: list[Any] = [
            self.workspace, self.call.fingerprint, self.decision, self.change, self.profile, self.rules,
        ]  # fmt: skip
        return hashlib.sha256(msgspec.json.encode(seen, order="deterministic")).hexdigest()
