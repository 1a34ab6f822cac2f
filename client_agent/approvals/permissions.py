"""What the user allows: rules, grants for a session, and pauses. A change is in force for the next call."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec

from client_agent.approvals.questions import Answer, Scope
from client_agent.journal.grants import GrantKind, GrantStore, StoredGrant
from client_agent.journal.pauses import PauseStore, StoredPause
from client_agent.journal.permissions import PermissionFile
from client_agent.journal.rules import RuleStore
from client_agent.policy.decision import CallClass, Decision, Reason, Risk, Verdict
from client_agent.policy.rules import NO_RULES, RuleBook
from client_agent.protocol.calls import Call

# A grant ends with its session, and at the latest after a working day.
GRANT_LIFETIME_S = 8 * 3600.0
# Decisions that a grant may settle. A rule that wants to be asked is stronger than a grant.
_GRANTABLE = frozenset({"needs_approval", "rule_exceeded"})


class InForce:
    """What the user allows at one moment: a decision is made under one of these."""

    def __init__(
        self,
        rules: RuleBook,
        grants: list[StoredGrant],
        pauses: dict[str, StoredPause],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.rules = rules
        self._grants = grants
        self._pauses = pauses
        self._now = now

    def apply(self, workspace: str, call: Call, decision: Decision) -> Decision:
        """The decision, with the user's grants and pauses: a grant turns ask into run, a pause all but a refusal."""
        if decision.verdict is not Verdict.REFUSE and (pause := self.find_pause(workspace)) is not None:
            reasons = (Reason("paused", explain_pause(pause)),)
            return msgspec.structs.replace(decision, verdict=Verdict.REFUSE, code="paused", reasons=reasons)
        return self._apply_grants(workspace, call, decision)

    def _apply_grants(self, workspace: str, call: Call, decision: Decision) -> Decision:
        """The decision, turned from ask to run where the user has granted such calls for the session."""
        if decision.verdict is not Verdict.ASK or decision.code not in _GRANTABLE or call.session_id is None:
            return decision
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

    def find_pause(self, workspace: str) -> StoredPause | None:
        pause = self._pauses.get(workspace)
        return None if pause is None or (pause.until is not None and pause.until <= self._now()) else pause

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


NOTHING_IN_FORCE = InForce(NO_RULES, [], {})


class Permissions:
    """The rules and grants of one state directory. Raises JournalError when they cannot be read."""

    def __init__(self, state_dir: Path, now: Callable[[], float] = time.time) -> None:
        self._file = PermissionFile(state_dir)
        self._now = now
        self.rule_store = RuleStore(self._file)
        self.grant_store = GrantStore(self._file)
        self._pause_store = PauseStore(self._file)
        self._in_force = NOTHING_IN_FORCE

    def close(self) -> None:
        self._file.close()

    @property
    def in_force(self) -> InForce:
        """What is allowed this very moment, whichever process changed it: the same object until somebody does."""
        if self._file.changed():
            now = self._now()
            pauses = {pause.workspace: pause for pause in self._pause_store.list(now=now)}
            rules, grants = RuleBook(self.rule_store.list()), self.grant_store.list(now=now)
            self._in_force = InForce(rules, grants, pauses, self._now)
        return self._in_force

    @property
    def rules(self) -> RuleBook:
        return self.in_force.rules

    def apply(self, workspace: str, call: Call, decision: Decision) -> Decision:
        """As `InForce.apply`, at this very moment."""
        return self.in_force.apply(workspace, call, decision)

    def grant(self, workspace: str, call: Call, decision: Decision, answer: Answer) -> StoredGrant | None:
        """Remembers a yes that reaches beyond one call; None where there is nothing to remember."""
        if answer.scope is Scope.ONCE or call.session_id is None or decision.call_class is None:
            return None
        everything = answer.scope is Scope.SESSION
        lifetime_s = GRANT_LIFETIME_S if answer.for_s is None else min(answer.for_s, GRANT_LIFETIME_S)
        grant = StoredGrant(
            id=uuid.uuid4().hex[:12],
            workspace=workspace,
            kind=GrantKind.EVERYTHING if everything else GrantKind.CLASS,
            max_risk=Risk.HIGH if everything else decision.risk,
            created_at=self._now(),
            session_id=call.session_id,
            command_class=None if everything else decision.call_class.to_text(),
            expires_at=self._now() + lifetime_s,
        )
        self.grant_store.add(grant)
        return grant

    def pause(self, workspace: str, note: str = "", for_s: float | None = None) -> StoredPause:
        """Nothing more begins in this workspace until it is resumed, or the time is over."""
        now = self._now()
        pause = StoredPause(workspace=workspace, note=note, since=now, until=None if for_s is None else now + for_s)
        self._pause_store.put(pause)
        return pause

    def resume(self, workspace: str) -> bool:
        """Whether it was paused."""
        held = self.find_pause(workspace) is not None
        return self._pause_store.remove(workspace) and held

    def find_pause(self, workspace: str) -> StoredPause | None:
        return self.in_force.find_pause(workspace)

    def end_all(self, workspace: str) -> None:
        """Sessions do not outlive the daemon that served them."""
        for grant in self.grant_store.list(now=self._now(), workspace=workspace):
            self.grant_store.revoke(grant.id, now=self._now())


def _describe(grant: StoredGrant) -> str:
    return CallClass.from_text(grant.command_class).label if grant.command_class else "everything"


def explain_pause(pause: StoredPause) -> str:
    """What the agent is told, and the log."""
    note = f" ({pause.note})" if pause.note else ""
    return f"the user has paused this workspace{note}: nothing runs until they resume it; do not retry before"
