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

import msgspec

from client_agent.approvals.broker import Broker
from client_agent.approvals.change import describe_change
from client_agent.approvals.permissions import Permissions
from client_agent.approvals.questions import Answer, Outcome, Question
from client_agent.errors import CallError, JournalError
from client_agent.policy.decision import Decision, Reason, Risk, Verdict
from client_agent.policy.judge import Judge
from client_agent.policy.rules import NO_RULES, Explanation
from client_agent.protocol.calls import Call
from client_agent.protocol.messages import ApprovalRequest
from client_agent.protocol.results import CallResult, completed, failed, failed_by
from client_agent.protocol.states import CallState
from client_agent.protocol.tools import find_spec, parse_params
from client_agent.tools import Tool, ToolContext
from client_agent.workspace.root import NotCached

log = logging.getLogger(__name__)

# How often a call may be asked about anew because the facts changed while the user was thinking.
_MAX_QUESTIONS = 3


class Recorder(Protocol):
    """Where each step of a call is written down. `begin` returns only when the call may start."""

    def decided(self, call: Call, decision: Decision) -> None: ...

    def approved(self, call: Call, answer: Answer | None) -> None: ...

    async def begin(self, call: Call) -> None: ...

    async def finish(self, call: Call, state: CallState, result: CallResult, answer: Answer | None) -> None: ...


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
        permissions: Permissions | None = None,
    ) -> None:
        self._name = name
        self._context = context
        self._judge = judge
        self._broker = broker
        self._recorder = recorder
        self._tools = tools
        self._permissions = permissions
        self._slots = asyncio.Semaphore(context.workspace.limits.calls_in_flight)

    async def carry_out(
        self, call: Call, signal: asyncio.Event | None = None, approved_as: Risk | None = None
    ) -> CallResult:
        """Everything that happens to a call.

        With `signal`, the server has asked first and starts it by that. `approved_as` is the risk at which the user
        said yes to it before a restart.
        """
        answer = None
        decision = await self.decide(call)
        if decision.verdict is Verdict.ASK and decision.risk is approved_as:
            decision = msgspec.structs.replace(decision, verdict=Verdict.RUN, code="approved_before")
        self._recorder.decided(call, decision)
        if decision.verdict is Verdict.ASK:
            decision, answer = await self._ask_until_settled(call, decision)
        if decision.verdict is Verdict.REFUSE:
            return await self._end(call, CallState.FAILED, _refused(decision), answer)
        if answer is not None and not answer.approved:
            return await self._end(call, _STATES[answer.outcome], _not_approved(answer), answer)
        self._recorder.approved(call, answer)
        if signal is not None:
            await signal.wait()
        async with self._slots:
            result = await self._execute_recorded(call)
        state = CallState.COMPLETED if result.failure is None else CallState.FAILED
        return await self._end(call, state, result, answer)

    async def decide(self, call: Call) -> Decision:
        """The decision, without waiting for a disk where the facts are at hand."""
        rules = self._permissions.rules if self._permissions else NO_RULES
        try:
            decision = self._judge.decide(call, self._context.root.inspect_cached, rules)
        except NotCached:
            decision = await asyncio.to_thread(self._judge.decide, call, self._context.root.inspect, rules)
        return self._permissions.apply_grants(self._name, call, decision) if self._permissions else decision

    def explain(self, call: Call) -> Explanation:
        """Which rule decides the call, and which others match it. Blocking: it may look at the disk."""
        rules = self._permissions.rules if self._permissions else NO_RULES
        return self._judge.explain(call, self._context.root.inspect, rules)

    async def ask_blind(self, request: ApprovalRequest) -> Answer:
        """The user's answer to a request without parameters. It lets nothing run: the signal is asked about as well."""
        theirs = Risk.__members__.get((request.risk_level or "").upper(), Risk.HIGH)
        reason = Reason(
            "parameters_unknown", "the server does not say with which parameters: before it runs you are asked again"
        )
        call = Call(tool_id=request.tool_id, tool_name=request.tool_name, tool_params={})
        reasons = (reason, Reason("server_says", request.description)) if request.description else (reason,)
        decision = Decision(verdict=Verdict.ASK, risk=theirs, reasons=reasons, code="needs_approval")
        return await self._broker.ask(await self._question(call, decision))

    async def _ask_until_settled(self, call: Call, decision: Decision) -> tuple[Decision, Answer]:
        """Asks, and asks again when the facts behind the question changed meanwhile: a yes is to what was shown."""
        for _ in range(_MAX_QUESTIONS):
            answer = await self._broker.ask(await self._question(call, decision))
            if not answer.approved:
                return decision, answer
            now = await self.decide(call)
            if now == decision or now.verdict is not Verdict.ASK:
                self._remember(call, now, answer)
                return now, answer
            decision = now
            self._recorder.decided(call, decision)
        return decision, Answer(outcome=Outcome.REJECTED, reason="what the call would do kept changing")

    def _remember(self, call: Call, decision: Decision, answer: Answer) -> None:
        """A yes to more than this call holds for the next one."""
        if self._permissions is not None and decision.verdict is Verdict.ASK:
            self._permissions.grant(self._name, call, decision, answer.scope)

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

    async def _execute_recorded(self, call: Call) -> CallResult:
        try:
            await self._recorder.begin(call)
        except JournalError as error:
            return failed(error.code, f"Nothing was run, since nothing can be recorded: {error.message}")
        return await self._execute(call)

    async def _execute(self, call: Call) -> CallResult:
        spec = find_spec(call.tool_name)
        assert spec is not None  # noqa: S101 - the judge refuses unknown tools
        try:
            tool = self._tools[spec.name]
            return completed(await tool.run(parse_params(spec, call.tool_params), self._context))
        except CallError as error:
            return failed_by(error)
        except Exception:
            log.exception("tool %s failed unexpectedly", spec.name)
            return failed("internal_error", f"{spec.name} failed unexpectedly; see the daemon's log")

    async def _end(self, call: Call, state: CallState, result: CallResult, answer: Answer | None) -> CallResult:
        await self._recorder.finish(call, state, result, answer)
        return result


_STATES = {
    Outcome.REJECTED: CallState.REJECTED,
    Outcome.TIMED_OUT: CallState.TIMEOUT,
    Outcome.NOBODY: CallState.REJECTED,
    Outcome.WITHDRAWN: CallState.FAILED,
}


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
