"""How a call ends that is not run: its state and its result."""

from __future__ import annotations

from client_agent.approvals.questions import Answer, Outcome
from client_agent.policy.decision import Decision
from client_agent.protocol.results import CallResult, failed
from client_agent.protocol.states import CallState

LAPSED = failed(
    "approval_lapsed",
    "What was approved no longer holds: it took too long, or what the call would do has changed. Ask for it anew.",
    type="ApprovalError",
)
_STATES = {
    Outcome.REJECTED: CallState.REJECTED,
    Outcome.TIMED_OUT: CallState.TIMEOUT,
    Outcome.NOBODY: CallState.REJECTED,
    Outcome.WITHDRAWN: CallState.FAILED,
}


def refused(decision: Decision) -> tuple[CallState, CallResult]:
    """By policy, before anybody was asked or although somebody said yes."""
    message = "; ".join(reason.text for reason in decision.reasons)
    kind = "ValidationError" if decision.code == "invalid_parameters" else "SecurityError"
    return CallState.FAILED, failed(decision.code, message, type=kind, risk=decision.risk.name)


def not_approved(answer: Answer) -> tuple[CallState, CallResult]:
    """Any answer but a yes."""
    return _STATES[answer.outcome], _explain(answer)


def _explain(answer: Answer) -> CallResult:
    match answer.outcome:
        case Outcome.TIMED_OUT:
            return failed("approval_timeout", "Approval timeout", type="TimeoutError")
        case Outcome.NOBODY:
            message = "Approval is needed and nobody can be asked now. Do not retry until a person is there."
            return failed("no_approver", message, type="ApprovalError")
        case Outcome.WITHDRAWN:
            return failed("cancelled", f"Cancelled: {answer.reason or 'by the server'}", type="CancelledError")
        case _:
            reason = f": {answer.reason}" if answer.reason else ""
            return failed("rejected_by_user", f"Rejected by the user{reason}. Do not retry.", type="ApprovalError")
