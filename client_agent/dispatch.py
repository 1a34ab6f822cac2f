"""The one sequence every call takes: decide → ask, if it must → record → execute → record → result.

`carry_out` is all of it. A refusal, a rejection and a failed tool are results; an exception nobody expected becomes a
`failed` result here and nowhere else, so that no call can end the daemon.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace as replace_fields

from client_agent.approvals.broker import Broker
from client_agent.approvals.permissions import Permissions
from client_agent.approvals.questions import Answer, Outcome, Question
from client_agent.errors import CallCancelled, CallError, JournalError
from client_agent.policy.decision import Decision, Reason, Risk, Verdict
from client_agent.policy.judge import Judge
from client_agent.policy.rules import NO_RULES, Explanation
from client_agent.protocol.calls import Call
from client_agent.protocol.messages import ApprovalRequest
from client_agent.protocol.results import CallResult, completed, failed, failed_by
from client_agent.protocol.states import CallState
from client_agent.protocol.tools import find_spec, parse_params
from client_agent.tools import Permit, Tool, ToolContext
from client_agent.workspace.root import NotCached

log = logging.getLogger(__name__)

# How often a call may be asked about anew because the facts changed while the user was thinking.
_MAX_QUESTIONS = 3
# A yes is good for so long: a call that the server starts later than that has to be asked for anew.
_SIGNAL_WAIT_S = 3600.0


class Recorder(Protocol):
    """Where each step of a call is written down. `begin` returns only when the call may start."""

    def decided(self, call: Call, decision: Decision) -> None: ...

    def approved(self, call: Call, answer: Answer | None) -> None: ...

    async def begin(self, call: Call) -> None: ...

    async def finish(self, call: Call, state: CallState, result: CallResult, answer: Answer | None) -> None: ...


class Approval(msgspec.Struct, frozen=True):
    """How an earlier run approved a call it did not start. What no person approved is judged by today's rules."""

    risk: Risk
    by_person: bool


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
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._unsignalled: dict[str, asyncio.Event] = {}
        self._cancelled: dict[str, str] = {}
        self._slots = asyncio.Semaphore(context.workspace.limits.calls_in_flight)

    async def carry_out(
        self, call: Call, signal: asyncio.Event | None = None, before: Approval | None = None
    ) -> CallResult:
        """Everything that happens to a call.

        With `signal`, the server has asked first and starts it by that. `before`: it was approved before a restart.
        """
        answer = None
        decision = await self.decide(call)
        if before is not None and decision.verdict is Verdict.ASK:
            if not before.by_person or decision.risk is not before.risk:
                return await self._end(call, CallState.FAILED, _LAPSED, None)
            decision = replace_fields(decision, verdict=Verdict.RUN, code="approved_before")
        self._recorder.decided(call, decision)
        if decision.verdict is Verdict.ASK:
            decision, answer = await self._ask_until_settled(call, decision)
        if decision.verdict is Verdict.REFUSE:
            return await self._end(call, CallState.FAILED, _refused(decision), answer)
        if answer is not None and not answer.approved:
            return await self._end(call, _STATES[answer.outcome], _not_approved(answer), answer)
        self._recorder.approved(call, answer)
        if signal is not None and (lapsed := await self._wait_for_signal(call, signal, decision)) is not None:
            waits = lapsed is not _LAPSED  # once it was signalled, the server waits for a result
            return await self._end(replace_fields(call, awaits_signal=waits), CallState.FAILED, lapsed, answer)
        call = replace_fields(call, awaits_signal=False)  # from here on the server is owed a result
        permit = Permit(tool_id=call.tool_id, read_only=decision.read_only, network=decision.network)
        async with self._slots:
            result = await self._execute_recorded(call, permit)
        state = CallState.COMPLETED if result.failure is None else CallState.FAILED
        return await self._end(call, state, result, answer)

    async def _still_holds(self, call: Call, decision: Decision) -> bool:
        """Whether what was approved is still what the call would do, and still allowed."""
        now = await self.decide(call)
        same = (now.risk, now.network, now.read_only, now.call_class) == (
            decision.risk, decision.network, decision.read_only, decision.call_class,
        )  # fmt: skip
        asked_for = decision.verdict is Verdict.ASK or decision.code == "approved_before"
        return same and (now.verdict is Verdict.RUN or (now.verdict is Verdict.ASK and asked_for))

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
            change=await self._preview(call),
        )

    async def _preview(self, call: Call) -> str:
        spec = find_spec(call.tool_name)
        tool = self._tools.get(spec.name) if spec else None
        if spec is None or tool is None or tool.preview is None:
            return ""
        try:
            params = parse_params(spec, call.tool_params)
        except CallError:  # a server that does not say with which parameters
            return ""
        return await asyncio.to_thread(tool.preview, params, self._context)

    async def _wait_for_signal(self, call: Call, signal: asyncio.Event, decision: Decision) -> CallResult | None:
        """Waits until the server starts what was approved. What it cancels, or forgets, has ended with this result."""
        self._unsignalled[call.tool_id] = signal
        try:
            async with asyncio.timeout(_SIGNAL_WAIT_S):
                await signal.wait()
        except TimeoutError:
            return failed("not_signalled", "The server did not start the call in time", type="TimeoutError")
        finally:
            del self._unsignalled[call.tool_id]
        reason = self._cancelled.pop(call.tool_id, None)
        if reason is not None:
            return failed("cancelled", f"Cancelled: {reason}", type="CancelledError")
        return None if await self._still_holds(call, decision) else _LAPSED

    async def _execute_recorded(self, call: Call, permit: Permit) -> CallResult:
        try:
            await self._recorder.begin(call)
        except JournalError as error:
            return failed(error.code, f"Nothing was run, since nothing can be recorded: {error.message}")
        return await self._execute(call, replace(self._context, permit=permit))

    async def _execute(self, call: Call, context: ToolContext) -> CallResult:
        spec = find_spec(call.tool_name)
        assert spec is not None  # noqa: S101 - the judge refuses unknown tools
        try:
            tool = self._tools[spec.name]
            work = tool.run(parse_params(spec, call.tool_params), context)
            return completed(await (self._cancellable(call, work) if tool.cancellable else finish_anyway(work)))
        except CallError as error:
            return failed_by(error)
        except Exception:
            log.exception("tool %s failed unexpectedly", spec.name)
            return failed("internal_error", f"{spec.name} failed unexpectedly; see the daemon's log")

    async def _cancellable(self, call: Call, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """What ends a command early is its result as well, and is recorded like any other."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        self._running[call.tool_id] = task
        try:
            return await work
        except asyncio.CancelledError:
            task.uncancel()
            reason = self._cancelled.pop(call.tool_id, "the daemon was stopped")
            raise CallCancelled(f"Cancelled: {reason}") from None
        finally:
            del self._running[call.tool_id]

    def cancel(self, tool_id: str, reason: str) -> None:
        """The server no longer wants this call: its question goes away, and a command is ended with all it started."""
        self._broker.withdraw(tool_id, reason)
        if (task := self._running.get(tool_id)) is not None:
            self._cancelled[tool_id] = reason
            task.cancel()
        elif (signal := self._unsignalled.get(tool_id)) is not None:
            self._cancelled[tool_id] = reason
            signal.set()

    async def _end(self, call: Call, state: CallState, result: CallResult, answer: Answer | None) -> CallResult:
        await self._recorder.finish(call, state, result, answer)
        return result


async def finish_anyway(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Waits for work that cannot be stopped half-way, even when cancelled: what became of it must be known."""
    task = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            current = asyncio.current_task()
            assert current is not None  # noqa: S101
            current.uncancel()


_LAPSED = failed(
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
