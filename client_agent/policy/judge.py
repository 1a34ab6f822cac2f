"""The one decision every call gets: shape, hard refusals, risk, then run or ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from client_agent.config import Workspace
from client_agent.errors import InvalidParameters
from client_agent.policy.decision import Assessment, Decision, Inspect, Reason, Risk, Verdict, refusing
from client_agent.policy.files import assess_list, assess_read, assess_write
from client_agent.protocol.calls import Call
from client_agent.protocol.tools import Params, find_spec, parse_params


class Judge:
    """Decides the calls of one workspace. `user_id` is the token's `sub`: calls of another user are refused."""

    def __init__(self, workspace: Workspace, *, user_id: str | None = None) -> None:
        self._user_id = user_id
        self._assessors: dict[str, Callable[[Any, Inspect], Assessment]] = {
            "read_file": assess_read,
            "list_directory": assess_list,
            "write_file": lambda params, inspect: assess_write(params, inspect, workspace),
            "execute_command": lambda params, inspect: refusing(
                Reason("unavailable", "execute_command is not available yet")
            ),
        }

    def decide(self, call: Call, inspect: Inspect) -> Decision:
        """The same answer for the same call, facts and rules, every time."""
        assessment = self._assess(call, inspect)
        if assessment.refusal is not None:
            reason = assessment.refusal
            return Decision(verdict=Verdict.REFUSE, risk=assessment.risk, reasons=(reason,), code=reason.code)
        risk, reasons = _raise_by_server(assessment, call.server_risk)
        if risk is Risk.LOW:
            return Decision(verdict=Verdict.RUN, risk=risk, reasons=reasons, code="low_risk")
        return Decision(verdict=Verdict.ASK, risk=risk, reasons=reasons, code="needs_approval")

    def _assess(self, call: Call, inspect: Inspect) -> Assessment:
        spec = find_spec(call.tool_name)
        if spec is None:
            return refusing(Reason("unknown_tool", f"there is no tool {call.tool_name[:80]!r}"))
        if self._user_id is not None and call.user_id is not None and call.user_id != self._user_id:
            return refusing(Reason("other_user", "the call belongs to another user"))
        try:
            params: Params = parse_params(spec, call.tool_params)
        except InvalidParameters as error:
            return refusing(Reason(error.code, error.message))
        return self._assessors[spec.name](params, inspect)


def _raise_by_server(assessment: Assessment, word: str | None) -> tuple[Risk, tuple[Reason, ...]]:
    """The server's word can raise our risk, never lower it; a word we do not know counts as HIGH."""
    if not word:
        return assessment.risk, assessment.reasons
    theirs = Risk.__members__.get(word.upper(), Risk.HIGH)
    if theirs <= assessment.risk:
        return assessment.risk, assessment.reasons
    return theirs, (*assessment.reasons, Reason("raised_by_server", f"the server calls it {theirs.name}"))
