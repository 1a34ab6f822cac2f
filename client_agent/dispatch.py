"""The one sequence every call takes: decide → ask, if it must → record → execute → record → result.

`carry_out` is all of it. A refusal, a rejection and a failed tool are results; an exception nobody expected becomes a
`failed` result here and nowhere else, so that no call can end the daemon.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from typing import Protocol

from client_agent.approvals.broker import Broker
from client_agent.approvals.change import describe_change
from client_agent.approvals.questions import Answer, Outcome, Question
from client_agent.errors import CallError
from client_agent.policy.decision import Decision, Risk, Verdict
from client_agent.policy.judge import Judge
from client_agent.protocol.calls import Call
from client_agent.protocol.results import CallResult, completed, failed, failed_by
from client_agent.protocol.tools import find_spec, parse_params
from client_agent.tools import Tool, ToolContext
from client_agent.workspace.root import NotCached

log = logging.getLogger(__name__)

# How often a call may be asked about anew because the facts changed while the user was thinking.
_MAX_QUESTIONS = 3


class Recorder(Protocol):
    """Where each step of a call is written down. `begin` returns only when the call may start."""

    def decided(self, call: Call, decision: Decision) -> None: ...

    def asked(self, call: Call, decision: Decision) -> None: ...

    def answered(self, call: Call, decision: Decision, answer: Answer) -> None: ...

    async def begin(self, call: Call) -> None: ...

    async def finish(self, call: Call, result: CallResult) -> None: ...


class Dispatcher:
    """Carries out the calls of one workspace."""

    def __init__(
        self,
        name: str,
        *,
        context: ToolContext,
        judge: Judge,
        broker: Broker,
        recorder: Recorder,
        tools: Mapping[str, Tool],
    ) -> None:
        self._name = name
        self._context = context
        self._judge = judge
        self._broker = broker
        self._recorder = recorder
        self._tools = tools
        self._slots = asyncio.Semaphore(context.workspace.limits.calls_in_flight)
        # tool_id → fingerprint of what the user has already approved, waiting for the server's signal
        self._approved: dict[str, str] = {}

    async def carry_out(self, call: Call) -> CallResult:
        """Everything that happens to a call, from the decision to its recorded result."""
        decision = await self.decide(call)
        self._recorder.decided(call, decision)
        if decision.verdict is Verdict.ASK and self._approved.pop(call.tool_id, None) != call.fingerprint:
            decision, answer = await self._ask_until_settled(call, decision)
            if not answer.approved:
                return await self._finish(call, _not_approved(answer))
        if decision.verdict is Verdict.REFUSE:
            return await self._finish(call, _refused(decision))
        async with self._slots:
            await self._recorder.begin(call)
            result = await self._execute(call)
        return await self._finish(call, result)

    async def decide(self, call: Call) -> Decision:
        """The decision, without waiting for a disk where the facts are at hand."""
        try:
            return self._judge.decide(call, self._context.root.inspect_cached)
        except NotCached:
            return await asyncio.to_thread(self._judge.decide, call, self._context.root.inspect)

    async def preapprove(self, call: Call) -> tuple[Decision, Answer | None]:
        """Answers a server's approval request; a yes holds for the signal with the same tool and parameters."""
        decision = await self.decide(call)
        self._recorder.decided(call, decision)
        if decision.verdict is not Verdict.ASK:
            return decision, None
        decision, answer = await self._ask_until_settled(call, decision)
        if answer.approved and decision.verdict is Verdict.ASK:
            self._approved[call.tool_id] = call.fingerprint
        return decision, answer

    async def _ask_until_settled(self, call: Call, decision: Decision) -> tuple[Decision, Answer]:
        """Asks, and asks again when the facts behind the question changed meanwhile: a yes is to what was shown."""
        for _ in range(_MAX_QUESTIONS):
            self._recorder.asked(call, decision)
            answer = await self._broker.ask(await self._question(call, decision))
            self._recorder.answered(call, decision, answer)
            if not answer.approved:
                return decision, answer
            now = await self.decide(call)
            if now == decision or now.verdict is not Verdict.ASK:
                return now, answer
            decision = now
        return decision, Answer(outcome=Outcome.REJECTED, reason="what the call would do kept changing")

    async def _question(self, call: Call, decision: Decision) -> Question:
        approvals = self._context.workspace.approvals
        timeout_s = approvals.high_timeout_s if decision.risk is Risk.HIGH else approvals.medium_timeout_s
        spec = find_spec(call.tool_name)
        return Question(
            id=uuid.uuid4().hex,
            workspace=self._name,
            call=call,
            decision=decision,
            server_id=spec.server_id if spec else "",
            timeout_s=timeout_s,
            deadline=self._broker.now() + timeout_s,
            change=await asyncio.to_thread(describe_change, call, self._context.root),
        )

    async def _execute(self, call: Call) -> CallResult:
        spec = find_spec(call.tool_name)
        assert spec is not None  # noqa: S101  (the judge refuses unknown tools)
        try:
            params = parse_params(spec, call.tool_params)
            return completed(await self._tools[spec.name].run(params, self._context))
        except CallError as error:
            return failed_by(error)
        except Exception:
            log.exception("tool %s failed unexpectedly", spec.name)
            return failed("internal_error", f"{spec.name} failed unexpectedly; see the daemon's log")

    async def _finish(self, call: Call, result: CallResult) -> CallResult:
        await self._recorder.finish(call, result)
        return result


def _refused(decision: Decision) -> CallResult:
    message = "; ".join(reason.text for reason in decision.reasons)
    kind = "ValidationError" if decision.code == "invalid_parameters" else "SecurityError"
    return failed(decision.code, message, type=kind, risk=decision.risk.name)


def _not_approved(answer: Answer) -> CallResult:
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
