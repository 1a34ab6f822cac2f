"""Each step of a call, into the workspace's ledger and the audit log."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from client_agent.approvals.questions import Answer, Outcome
from client_agent.journal.audit import AuditEntry, describe
from client_agent.journal.journal import Journal
from client_agent.journal.ledger import Ledger
from client_agent.journal.writer import Durability
from client_agent.policy.decision import Decision, Risk, Verdict
from client_agent.protocol.calls import Call
from client_agent.protocol.results import CallFailure, CallResult
from client_agent.protocol.states import CallState

POLICY = "policy"  # who approved a call that nobody was asked about
_APPROVED = msgspec.json.encode({"decision": "approved"})


class LedgerRecorder:
    """The dispatcher's recorder in the daemon."""

    def __init__(self, journal: Journal, ledger: Ledger) -> None:
        self._journal = journal
        self._ledger = ledger
        self._decisions: dict[str, Decision] = {}

    def decided(self, call: Call, decision: Decision) -> None:
        self._decisions[call.tool_id] = decision
        self._ledger.decide(call.tool_id, decision, rule_id=decision.rule_id, grant_id=decision.grant_id)
        if decision.verdict is Verdict.ASK:
            self._note(call, "asked", decision.code)

    def approved(self, call: Call, answer: Answer | None) -> None:
        if answer is None and not call.awaits_signal:
            return  # nobody was asked, here or there
        record = self._ledger.find(call.tool_id)
        before = record.approver if record is not None else None  # whoever said yes in an earlier run
        self._ledger.approve(
            call.tool_id,
            approver=answer.by if answer else before or POLICY,
            answer=_APPROVED if call.awaits_signal else None,
        )

    async def begin(self, call: Call) -> None:
        decision = self._decisions.get(call.tool_id)
        harmless = decision is not None and _changes_nothing(decision)
        await self._ledger.begin(call.tool_id, Durability.WRITTEN if harmless else Durability.DURABLE)

    async def finish(self, call: Call, state: CallState, result: CallResult, answer: Answer | None) -> None:
        failure = result.failure
        if call.asked_for is not None and failure is None:
            self._note(call, "approved", "", answer)
            self._decisions.pop(call.tool_id, None)
            self._ledger.answer(call.tool_id, approver=answer.by if answer else POLICY, answer=_APPROVED)
            return
        # A call that the server only asked about gets its answer there, and no result.
        asked_only = call.awaits_signal and (record := self._ledger.find(call.tool_id)) is not None and record.startable
        self._note(
            call, _status(state, answer, self._decisions.get(call.tool_id)), failure.code if failure else "", answer
        )
        self._decisions.pop(call.tool_id, None)
        await self._ledger.finish(
            call.tool_id,
            state,
            None if asked_only else msgspec.json.encode(result.to_wire()),
            failure_code=failure.code if failure else None,
            approver=answer.by if answer else None,
            answer=msgspec.json.encode({"reason": _reject_reason(failure, answer)}) if asked_only and failure else None,
        )

    def _note(self, call: Call, status: str, code: str, answer: Answer | None = None) -> None:
        operation, target = describe(call)
        decision = self._decisions.get(call.tool_id)
        self._journal.note(
            AuditEntry(
                time=datetime.now(UTC),
                operation=operation,
                status=status,
                workspace=self._ledger.workspace,
                tool_id=call.tool_id,
                tool_name=call.tool_name,
                target=target,
                user=call.user_id or "",
                decision=decision.verdict.value if decision else "",
                risk=decision.risk.name if decision else "",
                reasons=tuple(reason.text for reason in decision.reasons) if decision else (),
                rule_id=(decision.rule_id or "") if decision else "",
                grant_id=(decision.grant_id or "") if decision else "",
                approver=answer.by if answer else "",
                code=code,
            )
        )


def _changes_nothing(decision: Decision) -> bool:
    """Whether the call can change nothing, here or elsewhere, whatever it does: its confinement sees to it."""
    return decision.risk is Risk.LOW and decision.read_only and not decision.network


def _reject_reason(failure: CallFailure, answer: Answer | None) -> str:
    """What the server is told for the agent. That the user rejected it, the server says itself."""
    if answer is None or answer.outcome is not Outcome.REJECTED:
        return failure.message
    return f"{answer.reason}. Do not retry." if answer.reason else "Do not retry."


def _status(state: CallState, answer: Answer | None, decision: Decision | None) -> str:
    if state is CallState.COMPLETED:
        return "success"
    refused = decision is not None and decision.verdict is Verdict.REFUSE
    unanswered = state in (CallState.REJECTED, CallState.TIMEOUT)
    withdrawn = answer is not None and answer.outcome is Outcome.WITHDRAWN
    return "denied" if refused or unanswered or withdrawn else "failed"
