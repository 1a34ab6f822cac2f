"""The one sequence every call takes: decide → ask, if it must → record → execute → record → result.

`carry_out` is all of it. A refusal, a rejection and a failed tool are results; an exception nobody expected becomes a
`failed` result here and nowhere else, so that no call can end the daemon.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace as replace_fields

from client_agent.approvals.broker import Broker
from client_agent.approvals.permissions import NOTHING_IN_FORCE, InForce, Permissions
from client_agent.approvals.questions import Answer, Outcome, Question
from client_agent.endings import LAPSED, not_approved, refused
from client_agent.errors import CallCancelled, CallError, JournalError
from client_agent.policy.decision import Decision, Reason, Risk, Verdict
from client_agent.policy.rules import Explanation
from client_agent.protocol.calls import Call
from client_agent.protocol.results import CallResult, completed, failed, failed_by
from client_agent.protocol.states import CallState
from client_agent.protocol.tools import find_spec, parse_params
from client_agent.terms import Terms
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


class _Settled(NamedTuple):
    """What was decided and answered, the change that was shown, and how the call ended if it did with that."""

    decision: Decision
    answer: Answer | None = None
    shown: str = ""
    end: tuple[CallState, CallResult] | None = None


class Signal:
    """The server's word to start a call that it had asked about, with the parameters that it then names."""

    def __init__(self) -> None:
        self.call: Call | None = None
        self._given = asyncio.Event()

    def give(self, call: Call | None) -> None:
        """None: it is cancelled."""
        self.call = call
        self._given.set()

    async def wait(self) -> None:
        await self._given.wait()

    def amends(self, call: Call) -> bool:
        """Whether it names another tool, or other parameters, than were asked about."""
        return self.call is not None and self.call.fingerprint != call.fingerprint


class Dispatcher:
    """Carries out the calls of one workspace."""

    def __init__(
        self,
        name: str,
        terms: Terms,
        *,
        broker: Broker,
        recorder: Recorder,
        tools: Mapping[str, Tool],
        permissions: Permissions | None = None,
    ) -> None:
        self._name = name
        self._terms = terms
        self._broker = broker
        self._recorder = recorder
        self._tools = tools
        self._permissions = permissions
        self._running: dict[str, tuple[Call, asyncio.Task[Any]]] = {}
        self._unsignalled: dict[str, Signal] = {}
        self._cancelled: dict[str, str] = {}

    def adopt(self, terms: Terms) -> Terms:
        """From now on calls are decided and begun under these. What has begun ends under the old ones, returned."""
        before, self._terms = self._terms, terms
        return before

    async def carry_out(self, call: Call, signal: Signal | None = None, before: Approval | None = None) -> CallResult:
        """Everything that happens to a call.

        With `signal`, the server has asked first and starts it by that. `before`: it was approved before a restart.
        """
        if call.asked_for is not None:
            return await self._answer_blind(call, call.asked_for)
        settled = await self._settle(call, before)
        if signal is not None and signal.amends(call):
            return await self._carry_out_amended(signal)
        if settled.end is not None:
            return await self._end(call, *settled.end, settled.answer)
        self._recorder.approved(call, settled.answer)
        if signal is not None:
            call, lapsed = await self._wait_for_signal(call, signal, settled)
            if signal.amends(call):
                return await self._carry_out_amended(signal)
            if lapsed is not None:
                return await self._end(call, CallState.FAILED, lapsed, settled.answer)
        decision = settled.decision
        permit = Permit(
            tool_id=call.tool_id, session_id=call.session_id, read_only=decision.read_only, network=decision.network
        )
        result = await self._execute_in_turn(call, settled, permit)
        state = CallState.COMPLETED if result.failure is None else CallState.FAILED
        return await self._end(call, state, result, settled.answer)

    async def _settle(self, call: Call, before: Approval | None) -> _Settled:
        """Decides, and asks where it must."""
        decision = await self.decide(call)
        if before is not None and decision.verdict is Verdict.ASK:
            if not before.by_person or decision.risk is not before.risk:
                return _Settled(decision, end=(CallState.FAILED, LAPSED))
            decision = replace_fields(decision, verdict=Verdict.RUN, code="approved_before")
        self._recorder.decided(call, decision)
        answer, shown = None, ""
        if decision.verdict is Verdict.ASK:
            decision, answer, shown = await self._ask_until_settled(call, decision)
        if decision.verdict is Verdict.REFUSE:
            return _Settled(decision, answer, end=refused(decision))
        if answer is not None and not answer.approved:
            return _Settled(decision, answer, end=not_approved(answer))
        return _Settled(decision, answer, shown)

    async def decide(self, call: Call) -> Decision:
        """The decision under the terms of this moment, without waiting for a disk where the facts are at hand."""
        while True:
            terms, allowed = self._terms, self._allowed
            with terms as context:
                try:
                    decision = terms.judge.decide(call, context.root.inspect_cached, allowed.rules)
                    return allowed.apply(self._name, call, decision)
                except NotCached:
                    decision = await asyncio.to_thread(terms.judge.decide, call, context.root.inspect, allowed.rules)
            if terms is self._terms and allowed is self._allowed:
                return allowed.apply(self._name, call, decision)

    @property
    def _allowed(self) -> InForce:
        return self._permissions.in_force if self._permissions else NOTHING_IN_FORCE

    async def _ask_until_settled(self, call: Call, decision: Decision) -> tuple[Decision, Answer, str]:
        """Asks, and asks again when the facts behind the question, or the change it showed, are others meanwhile.

        A yes is to what was shown: the change that was comes back with it.
        """
        question = await self._question(call, decision)
        for _ in range(_MAX_QUESTIONS):
            answer = await self._broker.ask(question)
            if not answer.approved:
                if self._broker.pauses.find(question) is not None:
                    self._end_session(call.session_id)
                return question.decision, answer, ""
            now = await self.decide(call)
            again = await self._question(call, now, again=True) if now.verdict is Verdict.ASK else None
            if again is None:
                self._recorder.decided(call, now)
            if again is None or again.binding == question.binding:
                self._remember(call, now, answer)
                return now, answer, question.change
            question = again
            self._recorder.decided(call, now)
        return question.decision, Answer(outcome=Outcome.REJECTED, reason="what the call would do kept changing"), ""

    async def _question(self, call: Call, decision: Decision, *, again: bool = False) -> Question:
        approvals = self._terms.context.workspace.approvals
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
            profile=self._terms.profile,
            rules=self._allowed.rules.digest,
            again=again,
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
        with self._terms as context:
            return await asyncio.to_thread(tool.preview, params, context)

    def _remember(self, call: Call, decision: Decision, answer: Answer) -> None:
        """A yes to more than this call holds for the next one."""
        if self._permissions is not None and decision.verdict is Verdict.ASK:
            self._permissions.grant(self._name, call, decision, answer)

    async def _wait_for_signal(self, call: Call, signal: Signal, settled: _Settled) -> tuple[Call, CallResult | None]:
        """Waits until the server starts what was approved. What it cancels, or forgets, has ended with this result."""
        self._unsignalled[call.tool_id] = signal
        try:
            async with asyncio.timeout(_SIGNAL_WAIT_S):
                await signal.wait()
        except TimeoutError:
            return call, failed("not_signalled", "The server did not start the call in time", type="TimeoutError")
        finally:
            del self._unsignalled[call.tool_id]
        if (reason := self._cancelled.pop(call.tool_id, None)) is not None:
            return call, failed("cancelled", f"Cancelled: {reason}", type="CancelledError")
        call = replace_fields(call, awaits_signal=False)  # from here on the server is owed a result
        holds = signal.amends(call) or await self._still_holds(call, settled)
        return call, None if holds else LAPSED

    async def _still_holds(self, call: Call, settled: _Settled) -> bool:
        """Whether what was approved is still what the call would do, and still allowed."""
        now, decision = await self.decide(call), settled.decision
        same = (now.risk, now.network, now.read_only, now.call_class) == (
            decision.risk, decision.network, decision.read_only, decision.call_class,
        )  # fmt: skip
        asked_for = decision.verdict is Verdict.ASK or decision.code == "approved_before"
        allowed = now.verdict is Verdict.RUN or (now.verdict is Verdict.ASK and asked_for)
        return same and allowed and (not settled.shown or await self._preview(call) == settled.shown)

    async def _carry_out_amended(self, signal: Signal) -> CallResult:
        """The server starts something else than it asked about: judged, and asked, as if it had never asked."""
        assert signal.call is not None  # noqa: S101
        return await self.carry_out(signal.call)

    async def _execute_in_turn(self, call: Call, settled: _Settled, permit: Permit) -> CallResult:
        """Executes when there is a free place. Terms that changed while it waited must let it run as well."""
        while True:
            terms = self._terms
            async with terms.slots:
                if terms is self._terms:
                    with terms as context:
                        return await self._execute_recorded(call, replace_fields(context, permit=permit))
            if not await self._still_holds(call, settled):
                return LAPSED

    async def _execute_recorded(self, call: Call, context: ToolContext) -> CallResult:
        try:
            await self._recorder.begin(call)
        except JournalError as error:
            return failed(error.code, f"Nothing was run, since nothing can be recorded: {error.message}")
        return await self._execute(call, context)

    async def _execute(self, call: Call, context: ToolContext) -> CallResult:
        spec = find_spec(call.tool_name)
        assert spec is not None  # noqa: S101 - the judge refuses unknown tools
        try:
            tool = self._tools[spec.name]
            work = tool.run(parse_params(spec, call.tool_params), context)
            return completed(await (self._cancellable(call, work) if tool.cancellable else work))
        except CallError as error:
            return failed_by(error)
        except Exception:
            log.exception("tool %s failed unexpectedly", spec.name)
            return failed("internal_error", f"{spec.name} failed unexpectedly; see the daemon's log")

    async def _cancellable(self, call: Call, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """What ends a command early is its result as well, and is recorded like any other."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        self._running[call.tool_id] = (call, task)
        try:
            return await work
        except asyncio.CancelledError:
            task.uncancel()
            reason = self._cancelled.pop(call.tool_id, "the daemon was stopped")
            raise CallCancelled(f"Cancelled: {reason}") from None
        finally:
            del self._running[call.tool_id]

    async def _end(self, call: Call, state: CallState, result: CallResult, answer: Answer | None) -> CallResult:
        await self._recorder.finish(call, state, result, answer)
        return result

    async def _answer_blind(self, call: Call, tool_id: str) -> CallResult:
        """The user's answer to a request without parameters. It lets nothing run: the signal is asked about as well."""
        theirs = Risk.__members__.get((call.server_risk or "").upper(), Risk.HIGH)
        reason = Reason(
            "parameters_unknown", "the server does not say with which parameters: before it runs you are asked again"
        )
        told = Reason("server_says", f"the server says: {call.description}")
        reasons = (reason, told) if call.description else (reason,)
        decision = Decision(verdict=Verdict.ASK, risk=theirs, reasons=reasons, code="needs_approval")
        self._recorder.decided(call, decision)
        answer = await self._broker.ask(await self._question(replace_fields(call, tool_id=tool_id), decision))
        if answer.approved:
            return await self._end(call, CallState.COMPLETED, completed({}), answer)
        return await self._end(call, *not_approved(answer), answer)

    def withdraw_question(self, tool_id: str, reason: str) -> None:
        """What was asked about this call is no longer wanted."""
        self._broker.withdraw(tool_id, reason)

    def cancel(self, tool_id: str, reason: str) -> None:
        """The server no longer wants this call: its question goes away, and a command is ended with all it started."""
        self.withdraw_question(tool_id, reason)
        if (running := self._running.get(tool_id)) is not None:
            self._cancelled[tool_id] = reason
            running[1].cancel()
        elif self._terms.context.sandbox is not None and self._terms.context.sandbox.processes.end(tool_id):
            log.info("%s: a process in the background was cancelled (%s)", self._name, tool_id[:8])
        elif (signal := self._unsignalled.get(tool_id)) is not None:
            self._cancelled[tool_id] = reason
            signal.give(None)

    def _end_session(self, session_id: str | None) -> None:
        """A session that was paused keeps nothing running either."""
        for call, _ in list(self._running.values()):
            if call.session_id == session_id:
                self.cancel(call.tool_id, "its session was paused by the user")
        if self._terms.context.sandbox is not None:
            self._terms.context.sandbox.processes.end_session(session_id)

    def explain(self, call: Call) -> Explanation:
        """Which rule decides the call, and which others match it. Blocking: it may look at the disk."""
        with self._terms as context:
            return self._terms.judge.explain(call, context.root.inspect, self._allowed.rules)
