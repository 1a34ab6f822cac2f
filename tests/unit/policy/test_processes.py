"""What may be done with a command in the background, and when somebody is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from client_agent import config
from client_agent.policy.decision import CallClass, Decision, PathFacts, PathKind, Reason, Risk, Verdict
from client_agent.policy.judge import Judge
from client_agent.policy.processes import ProcessFacts
from client_agent.protocol.calls import Call

PYTHON = ProcessFacts(argv=("python3", "-i"), read_only=False, network=False)
GREP = ProcessFacts(argv=("grep", "x"), read_only=True, network=False)
SHELL_ELSEWHERE = ProcessFacts(argv=("psql", "-h", "db"), read_only=True, network=True)
PUSH = ProcessFacts(argv=("git", "push"), read_only=False, network=True)


def inspect(path: str) -> PathFacts:
    return PathFacts(spelled=path, relative=path, kind=PathKind.FILE)


def decide(
    tmp_path: Path, known: dict[str, ProcessFacts], tool: str, mechanism: str = "auto", **params: Any
) -> Decision:
    workspace = msgspec.structs.replace(
        config.local_workspace(tmp_path),
        sandbox=config.Sandbox(mechanism=mechanism),  # type: ignore[arg-type]
    )
    judge = Judge(workspace, find_process=lambda handle, session: known.get(handle) if session == "s1" else None)
    return judge.decide(Call(tool_id="t", tool_name=tool, tool_params=params, session_id="s1"), inspect)


@pytest.mark.parametrize(
    ("tool", "told", "read_only"),
    [
        ("process_output", Reason("reads_output", "reads what the process 0123456789ab has written"), True),
        ("process_kill", Reason("ends_process", "ends the process 0123456789ab"), False),
    ],
)
def test_to_read_and_to_end_is_not_asked_about(tmp_path: Path, tool: str, told: Reason, read_only: bool) -> None:
    decision = decide(tmp_path, {}, tool, process_id="0123456789abcdef")
    assert decision.verdict is Verdict.RUN
    assert decision.reasons == (told,)
    assert decision.read_only is read_only
    assert decision.call_class == CallClass(label=tool, risk=Risk.LOW)


@pytest.mark.parametrize(
    ("facts", "risk", "code"),
    [
        (PYTHON, Risk.HIGH, "types_into"),
        (PUSH, Risk.HIGH, "types_into"),
        (SHELL_ELSEWHERE, Risk.HIGH, "types_into"),
        (GREP, Risk.LOW, "types_harmlessly"),
    ],
)
def test_what_is_typed_is_as_risky_as_what_it_can_do(
    tmp_path: Path, facts: ProcessFacts, risk: Risk, code: str
) -> None:
    decision = decide(tmp_path, {"p": facts}, "process_input", process_id="p", text="x")
    assert decision.risk is risk
    assert decision.network is facts.network
    assert decision.read_only is (risk is Risk.LOW)
    assert [reason.code for reason in decision.reasons] == [code]
    assert facts.argv[0] in decision.reasons[0].text
    label = f"input to {facts.argv[0]}"
    assert decision.call_class == CallClass(label=label, risk=risk, exact=("p",), network=facts.network)


def test_without_a_sandbox_all_typing_is_asked_about(tmp_path: Path) -> None:
    assert decide(tmp_path, {"p": GREP}, "process_input", "none", process_id="p").verdict is Verdict.ASK


def test_typing_into_nothing_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    decision = decide(tmp_path, {}, "process_input", process_id="p", text="x")
    assert (decision.verdict, decision.code) == (Verdict.REFUSE, "no_such_process")


def test_a_yes_to_typing_holds_for_one_process(tmp_path: Path) -> None:
    known = {"p": PYTHON, "q": PYTHON}
    one, same, other = (
        decide(tmp_path, known, "process_input", process_id=handle, text=text).call_class
        for handle, text in (("p", "x"), ("p", "y"), ("q", "x"))
    )
    assert one is not None
    assert same is not None
    assert other is not None
    assert one.covers(same)
    assert not one.covers(other)


def test_a_yes_to_a_command_is_none_to_leaving_it_running(tmp_path: Path) -> None:
    shown, left = (
        decide(tmp_path, {}, "execute_command", command="python3", args=["a.py"], background=background)
        for background in (False, True)
    )
    assert shown.call_class is not None
    assert left.call_class is not None
    assert not shown.call_class.covers(left.call_class)
    assert left.call_class.covers(shown.call_class)
    assert "in the background, for 3600 s" in left.reasons[-1].text


@pytest.mark.parametrize(
    "params", [{"process_id": ""}, {"process_id": "p", "text": "x" * 70_000}, {"process_id": "p", "signal": 9}, {}]
)
def test_what_does_not_fit_is_refused(tmp_path: Path, params: dict[str, Any]) -> None:
    assert decide(tmp_path, {"p": PYTHON}, "process_input", **params).code == "invalid_parameters"


def test_a_server_that_sees_no_process_asks(tmp_path: Path) -> None:
    judge = Judge(config.local_workspace(tmp_path))
    call = Call(tool_id="t", tool_name="process_input", tool_params={"process_id": "p"})
    decision = judge.decide(call, inspect)
    assert decision.verdict is Verdict.ASK
    assert decision.reasons == (Reason("types_into", "types into the process p"),)
