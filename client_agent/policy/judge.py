"""The one decision every call gets: shape, hard refusals, risk, rules, then run or ask."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from client_agent.config import Workspace
from client_agent.errors import InvalidParameters
from client_agent.policy.commands import Programs, assess_command, load_programs
from client_agent.policy.decision import Assessment, Decision, Inspect, Reason, Risk, Verdict, refusing
from client_agent.policy.files import assess_list, assess_read, assess_write
from client_agent.policy.processes import FindProcess, assess_input, assess_kill, assess_output, assess_unseen_input
from client_agent.policy.rules import NO_RULES, Explanation, Rule, RuleBook, Subject
from client_agent.protocol.calls import Call
from client_agent.protocol.tools import ExecuteCommand, Params, ProcessInput, ToolSpec, find_spec, parse_params


class Judge:
    """Decides the calls of one workspace. `user_id` is the token's `sub`: calls of another user are refused.

    `find_process` looks up commands in the background, where there are any.
    Raises ConfigError when the workspace's own program tables cannot be used.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        user_id: Callable[[], str | None] | str | None = None,
        find_process: FindProcess | None = None,
    ) -> None:
        self._find_process = find_process
        self._background_s = workspace.limits.background_max_s
        self._find_user_id = user_id if callable(user_id) else lambda: user_id
        programs = load_programs(workspace.policy)
        self._assessors: dict[str, Callable[[Any, Inspect], Assessment]] = {
            "read_file": assess_read,
            "list_directory": assess_list,
            "write_file": lambda params, inspect: assess_write(params, inspect, workspace),
            "execute_command": lambda params, inspect: self._assess_command(params, inspect, programs),
            "process_output": lambda params, inspect: assess_output(params),
            "process_kill": lambda params, inspect: assess_kill(params),
        }
        self._mechanism = workspace.sandbox.mechanism
        self._confined = self._mechanism == "auto"  # all else leaves files and network open

    def decide(self, call: Call, inspect: Inspect, rules: RuleBook = NO_RULES, *, now: float | None = None) -> Decision:
        """The same answer for the same call, facts, rules and time, every time."""
        assessment, subject = self._judge(call, inspect)
        reason = assessment.refusal
        if reason is not None:
            return Decision(verdict=Verdict.REFUSE, risk=assessment.risk, reasons=(reason,), code=reason.code)
        rule = None if subject is None else rules.match(subject, _moment(now))
        verdict, code, reasons = _apply(rule, assessment)
        return Decision(
            verdict=verdict,
            risk=assessment.risk,
            reasons=reasons,
            code=code,
            network=assessment.network,
            read_only=assessment.read_only,
            rule_id=None if rule is None else rule.id,
            call_class=assessment.call_class,
        )

    def _assess_command(self, params: ExecuteCommand, inspect: Inspect, programs: Programs) -> Assessment:
        """Without a sandbox nothing holds a command that was judged wrongly: every one of them asks."""
        assessment = assess_command(params, inspect, programs)
        if params.background:
            assessment = _in_background(assessment, self._background_s)
        if self._confined:
            return assessment
        unconfined = Reason(
            "unconfined", f"commands are not confined here (sandbox = {self._mechanism}): it can do what you can do"
        )
        call_class = assessment.call_class and msgspec.structs.replace(assessment.call_class, risk=Risk.HIGH)
        return msgspec.structs.replace(
            assessment, risk=Risk.HIGH, reasons=(*assessment.reasons, unconfined), call_class=call_class
        )

    def _assess_input(self, params: ProcessInput, session_id: str | None) -> Assessment:
        if self._find_process is None:
            return assess_unseen_input(params)
        return assess_input(params, self._find_process(params.process_id, session_id), confined=self._confined)

    def find_subject(self, call: Call, inspect: Inspect) -> Subject | None:
        """The call as rules see it; None for one that is refused, which no rule can change."""
        return self._judge(call, inspect)[1]

    def explain(self, call: Call, inspect: Inspect, rules: RuleBook, *, now: float | None = None) -> Explanation:
        """Which rule decides the call, and which others match it but come too late."""
        subject = self.find_subject(call, inspect)
        return Explanation(None, ()) if subject is None else rules.explain(subject, _moment(now))

    def _judge(self, call: Call, inspect: Inspect) -> tuple[Assessment, Subject | None]:
        """What the tool's own rules and the server say of the call, and how permission rules see it."""
        spec = find_spec(call.tool_name)
        if spec is None:
            return refusing(Reason("unknown_tool", f"there is no tool {call.tool_name[:80]!r}")), None
        user_id = self._find_user_id()
        if user_id is not None and call.user_id is not None and call.user_id != user_id:
            return refusing(Reason("other_user", "the call belongs to another user")), None
        try:
            params: Params = parse_params(spec, call.tool_params)
        except InvalidParameters as error:
            return refusing(Reason(error.code, error.message)), None
        if isinstance(params, ProcessInput):
            assessment = self._assess_input(params, call.session_id)
        else:
            assessment = self._assessors[spec.name](params, inspect)
        if assessment.refusal is not None:
            return assessment, None
        assessment = _raise_by_server(assessment, call.server_risk)
        return assessment, _subject(spec, params, assessment)


def _subject(spec: ToolSpec, params: Params, assessment: Assessment) -> Subject:
    argv = (params.command, *params.args) if isinstance(params, ExecuteCommand) else ()
    return Subject(tool_name=spec.name, server_id=spec.server_id, risk=assessment.risk, argv=argv, path=assessment.path)


def _in_background(assessment: Assessment, lifetime_s: int) -> Assessment:
    """Who allows a command for the session has not allowed it to go on for hours."""
    reason = Reason("background", f"goes on in the background, for {lifetime_s} s at most")
    call_class = assessment.call_class and msgspec.structs.replace(
        assessment.call_class, options=(*assessment.call_class.options, "background")
    )
    return msgspec.structs.replace(assessment, reasons=(*assessment.reasons, reason), call_class=call_class)


def _moment(now: float | None) -> float:
    """The time at which rules are judged, in seconds since 1970."""
    return time.time() if now is None else now


def _apply(rule: Rule | None, assessment: Assessment) -> tuple[Verdict, str, tuple[Reason, ...]]:
    reasons = assessment.reasons
    if rule is None:
        if assessment.risk is Risk.LOW:
            return Verdict.RUN, "low_risk", reasons
        return Verdict.ASK, "needs_approval", reasons
    name = f"the rule {rule.note or rule.id!r}"
    if not rule.auto_approve:
        return Verdict.ASK, "rule_asks", (*reasons, Reason("rule_asks", f"{name} wants it asked about"))
    if assessment.risk > rule.max_risk:
        text = f"{name} approves up to {rule.max_risk.name}, and this is {assessment.risk.name}"
        return Verdict.ASK, "rule_exceeded", (*reasons, Reason("rule_exceeded", text))
    return Verdict.RUN, "rule_approves", (*reasons, Reason("rule_approves", f"{name} approves it"))


def _raise_by_server(assessment: Assessment, word: str | None) -> Assessment:
    """The server's word can raise our risk, never lower it; a word we do not know counts as HIGH."""
    theirs = Risk.__members__.get(word.upper(), Risk.HIGH) if word else Risk.LOW
    if theirs <= assessment.risk:
        return assessment
    raised = Reason("raised_by_server", f"the server calls it {theirs.name}")
    call_class = assessment.call_class and msgspec.structs.replace(assessment.call_class, risk=theirs)
    return msgspec.structs.replace(
        assessment, risk=theirs, reasons=(*assessment.reasons, raised), call_class=call_class
    )
