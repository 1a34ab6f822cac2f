"""Where nothing confines a command, every command asks."""

from __future__ import annotations

import msgspec
import pytest

from client_agent.config import Sandbox, Workspace
from client_agent.policy.decision import Inspect, Risk, Verdict
from client_agent.policy.judge import Judge
from client_agent.protocol.calls import Call


@pytest.mark.parametrize("args", [["-la"], []])
def test_without_a_sandbox_even_a_look_up_asks_and_says_why(
    workspace: Workspace, inspect: Inspect, args: list[str]
) -> None:
    judge = Judge(msgspec.structs.replace(workspace, sandbox=Sandbox(mechanism="none")))
    call = Call(tool_id="t", tool_name="execute_command", tool_params={"command": "ls", "args": args})
    decision = judge.decide(call, inspect)
    assert (decision.verdict, decision.risk) == (Verdict.ASK, Risk.HIGH)
    assert "not confined" in decision.reasons[-1].text
    assert decision.call_class is not None
    assert decision.call_class.risk is Risk.HIGH


def test_without_a_sandbox_a_refusal_stays_one(workspace: Workspace, inspect: Inspect) -> None:
    judge = Judge(msgspec.structs.replace(workspace, sandbox=Sandbox(mechanism="none")))
    call = Call(tool_id="t", tool_name="execute_command", tool_params={"command": "rm", "args": ["-rf", "."]})
    assert judge.decide(call, inspect).verdict is Verdict.REFUSE
