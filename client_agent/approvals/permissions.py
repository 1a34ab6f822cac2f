"""The user's standing permissions: rules, and grants for a session. A change is in force for the next call."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec

from client_agent.approvals.questions import Scope
from client_agent.journal.grants import GrantKind, GrantStore, StoredGrant
from client_agent.journal.permissions import PermissionFile
from client_agent.journal.rules import RuleStore
from client_agent.policy.decision import CallClass, Decision, Reason, Risk, Verdict
from client_agent.policy.rules import NO_RULES, RuleBook
from client_agent.protocol.calls import Call

# A grant ends with its session, and at the latest after a working day.
GRANT_LIFETIME_S = 8 * 3600.0
# Decisions that a grant may settle. A rule that wants to be asked is stronger than a grant.
_GRANTABLE = frozenset({"needs_approval", "rule_exceeded"})


class Permissions:
    """The rules and grants of one state directory. Raises JournalError when they cannot be read."""

    def __init__(self, state_dir: Path, now: Callable[[], float] = time.time) -> None:
        self._file = PermissionFile(state_dir)
        self._now = now
        self.rule_store = RuleStore(self._file)
        self.grant_store = GrantStore(self._file)
        self._rules = NO_RULES
        self._grants: list[StoredGrant] = []

    def close(self) -> None:
        self._file.close()

    @property
    def rules(self) -> RuleBook:
        """As they are this very moment, whichever process changed them."""
        self._refresh()
        return self._rules

    def apply_grants(self, workspace: str, call: Call, decision: Decision) -> Decision:
        """The decision, turned from ask to run where the user has granted such calls for the session."""
        if decision.verdict is not Verdict.ASK or decision.code not in _GRANTABLE or call.session_id is None:
            return decision
        self._refresh()
        for grant in self._grants:
            if self._covers(grant, workspace, call.session_id, decision):
                reason = Reason("granted", f"you allowed {_describe(grant)} for this session")
                return msgspec.structs.replace(
                    decision,
                    verdict=Verdict.RUN,
                    code="granted",
                    grant_id=grant.id,
                    reasons=(*decision.reasons, reason),
                )
        return decision

    def grant(self, workspace: str, call: Call, decision: Decision, scope: Scope) -> StoredGrant | None:
        """Remembers a yes that reaches beyond one call; None where there is nothing to remember."""
        if scope is Scope.ONCE or call.session_id is None or decision.call_class is None:
            return None
        everything = scope is Scope.SESSION
        grant = StoredGrant(
            id=uuid.uuid4().hex[:12],
            workspace=workspace,
            kind=GrantKind.EVERYTHING if everything else GrantKind.CLASS,
            max_risk=Risk.HIGH if everything else decision.risk,
            created_at=self._now(),
            session_id=call.session_id,
            command_class=None if everything else decision.call_class.to_text(),
            expires_at=self._now() + GRANT_LIFETIME_S,
        )
        self.grant_store.add(grant)
        return grant

    def end_all(self, workspace: str) -> None:
        """Sessions do not outlive the daemon that served them."""
        for grant in self.grant_store.list(now=self._now(), workspace=workspace):
            self.grant_store.revoke(grant.id, now=self._now())

    def _refresh(self) -> None:
        if self._file.changed():
            self._rules = RuleBook(self.rule_store.list())
            self._grants = self.grant_store.list(now=self._now())

    def _covers(self, grant: StoredGrant, workspace: str, session_id: str, decision: Decision) -> bool:
        if grant.workspace != workspace or grant.session_id != session_id or decision.risk > grant.max_risk:
            return False
        if grant.expires_at is not None and grant.expires_at <= self._now():
            return False
        if grant.kind is GrantKind.EVERYTHING:
            return True
        if grant.command_class is None or decision.call_class is None:
            return False
        return CallClass.from_text(grant.command_class).covers(decision.call_class)


def _describe(grant: StoredGrant) -> str:
    return CallClass.from_text(grant.command_class).label if grant.command_class else "everything"
