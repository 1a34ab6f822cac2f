"""Where nothing confines a command, every command asks."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from client_agent.config import Sandbox, Workspace
from client_agent.policy.decision import Inspect, Risk, Verdict
from client_agent.policy.judge import Judge
from client_agent.protocol.calls import Call


@pytest.mark.parametrize("args", [["-la"], []])
@pytest.mark.parametrize("mechanism", ["none", "job-object"])
def test_without_a_sandbox_even_a_look_up_asks_and_says_why(
    workspace: Workspace, inspect: Inspect, args: list[str], mechanism: Literal["none", "job-object"]
) -> None:
    judge = Judge(msgspec.structs.replace(workspace, sandbox=Sandbox(mechanism=mechanism)))
    call = Call(tool_id="t", tool_name="execute_command", tool_params={"command": "ls", "args": args})
    decision = judge.decide(call, inspect)
    assert (decision.verdict, decision.risk) == (Verdict.ASK, Risk.HIGH)
    assert "not confined" in decision.reasons[-1].text
    assert [reason.code for reason in decision.reasons] == ["command_low", "unconfined"]
    assert decision.call_class is not None
    assert decision.call_class.risk is Risk.HIGH


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("mechanism", ["auto", "none"])
def test_a_refusal_stays_one_without_a_sandbox_and_in_the_background(
    workspace: Workspace, inspect: Inspect, background: bool, mechanism: Literal["auto", "none"]
) -> None:
    judge = Judge(msgspec.structs.replace(workspace, sandbox=Sandbox(mechanism=mechanism)))
    params = {"command": "rm", "args": ["-rf", "."], "background": background}
    decision = judge.decide(Call(tool_id="t", tool_name="execute_command", tool_params=params), inspect)
    assert decision.verdict is Verdict.REFUSE
    assert [reason.code for reason in decision.reasons] == ["command_blacklisted"]
    assert decision.call_class is None


def test_what_goes_on_in_the_background_is_a_class_of_its_own(workspace: Workspace, inspect: Inspect) -> None:
    params = {"command": "tail", "args": ["-f", "a.txt"]}
    waited, left = (
        Judge(workspace).decide(
            Call(tool_id="t", tool_name="execute_command", tool_params={**params, "background": background}), inspect
        )
        for background in (False, True)
    )
    assert [reason.code for reason in left.reasons] == [*(reason.code for reason in waited.reasons), "background"]
    assert waited.call_class is not None
    assert left.call_class is not None
    assert left.call_class.options == ("-f", "background")
    assert left.call_class.covers(waited.call_class)
    assert not waited.call_class.covers(left.call_class)
