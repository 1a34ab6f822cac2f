"""The one decision: shape, refusals, risk, rules."""

from __future__ import annotations

from typing import Any

import pytest

from client_agent.config import Workspace
from client_agent.policy.decision import Decision, Inspect, Risk, Verdict
from client_agent.policy.judge import Judge
from client_agent.policy.rules import Rule, RuleBook
from client_agent.protocol.calls import Call


def call(tool_name: str, server_risk: str | None = None, user_id: str | None = None, **params: Any) -> Call:
    return Call(tool_id="t", tool_name=tool_name, tool_params=params, server_risk=server_risk, user_id=user_id)


def book(**fields: Any) -> RuleBook:
    return RuleBook([Rule(**{"id": "r1", "created_at": 0.0, "updated_at": 0.0, **fields})])


@pytest.fixture
def judge(workspace: Workspace) -> Judge:
    return Judge(workspace, user_id="me")


def test_a_tool_that_does_not_exist_is_refused(judge: Judge, inspect: Inspect) -> None:
    assert judge.decide(call("format_disk"), inspect).code == "unknown_tool"


def test_a_call_of_another_user_is_refused(judge: Judge, workspace: Workspace, inspect: Inspect) -> None:
    assert judge.decide(call("read_file", user_id="you", path="a.txt"), inspect).code == "other_user"
    assert judge.decide(call("read_file", user_id="me", path="a.txt"), inspect).verdict is Verdict.RUN
    assert judge.decide(call("read_file", path="a.txt"), inspect).verdict is Verdict.RUN
    assert Judge(workspace).decide(call("read_file", user_id="you", path="a.txt"), inspect).verdict is Verdict.RUN


@pytest.mark.parametrize(
    ("tool", "params"),
    [
        ("execute_command", {"command": 5}),
        ("execute_command", {}),
        ("execute_command", {"command": "ls", "cwd": "/"}),
        ("execute_command", {"command": "ls", "args": "x"}),
        ("execute_command", {"command": "ls", "timeout": 301}),
    ],
)
def test_parameters_that_do_not_fit_are_refused(
    judge: Judge, inspect: Inspect, tool: str, params: dict[str, Any]
) -> None:
    assert judge.decide(call(tool, **params), inspect).code == "invalid_parameters"


def test_a_tool_may_be_called_by_its_other_name(judge: Judge, inspect: Inspect) -> None:
    assert judge.decide(call("command_executor", command="ls"), inspect).verdict is Verdict.RUN


@pytest.mark.parametrize(
    ("word", "risk"),
    [
        ("LOW", Risk.LOW),
        ("low", Risk.LOW),
        ("", Risk.LOW),
        (None, Risk.LOW),
        ("medium", Risk.MEDIUM),
        ("HIGH", Risk.HIGH),
        ("harmless", Risk.HIGH),
    ],
)
def test_the_servers_word_raises_the_risk(judge: Judge, inspect: Inspect, word: str | None, risk: Risk) -> None:
    decision = judge.decide(call("execute_command", server_risk=word, command="ls"), inspect)
    assert decision.risk is risk
    assert decision.verdict is (Verdict.RUN if risk is Risk.LOW else Verdict.ASK)
    assert decision.read_only, "what is only looked at stays so, whatever the server calls it"
    assert decision.call_class is not None
    assert decision.call_class.risk is risk


def test_the_servers_word_never_lowers_the_risk(judge: Judge, inspect: Inspect) -> None:
    decision = judge.decide(call("execute_command", server_risk="LOW", command="make"), inspect)
    assert (decision.verdict, decision.risk) == (Verdict.ASK, Risk.HIGH)


def decide_git(judge: Judge, inspect: Inspect, rules: RuleBook, *args: str) -> Decision:
    return judge.decide(call("execute_command", command="git", args=list(args)), inspect, rules)


def test_a_rule_approves_up_to_its_risk(judge: Judge, inspect: Inspect) -> None:
    approving = book(auto_approve=True, argument_pattern="git -...")
    status = decide_git(judge, inspect, approving, "status")
    assert (status.verdict, status.code, status.rule_id) == (Verdict.RUN, "rule_approves", "r1")
    assert not status.read_only
    forced = decide_git(judge, inspect, approving, "push", "--force")
    assert (forced.verdict, forced.code, forced.rule_id) == (Verdict.ASK, "rule_exceeded", "r1")
    wider = book(auto_approve=True, argument_pattern="git -...", max_risk=Risk.HIGH)
    assert decide_git(judge, inspect, wider, "push", "--force").verdict is Verdict.RUN


def test_the_first_matching_rule_decides_even_where_a_later_one_would_approve(judge: Judge, inspect: Inspect) -> None:
    first = Rule(id="a", created_at=0, updated_at=0, auto_approve=True, priority=2, max_risk=Risk.LOW)
    later = Rule(id="b", created_at=0, updated_at=0, auto_approve=True, priority=1, max_risk=Risk.HIGH)
    decision = decide_git(judge, inspect, RuleBook([later, first]), "status")
    assert (decision.verdict, decision.rule_id) == (Verdict.ASK, "a")


def test_a_rule_can_make_a_look_up_ask(judge: Judge, inspect: Inspect) -> None:
    asking = book(auto_approve=False, tool_name="read_file", note="careful")
    decision = judge.decide(call("read_file", path="a.txt"), inspect, asking)
    assert (decision.verdict, decision.risk, decision.code) == (Verdict.ASK, Risk.LOW, "rule_asks")
    assert decision.reasons[-1].text == "the rule 'careful' wants it asked about"


def test_no_rule_overrides_a_refusal(judge: Judge, inspect: Inspect) -> None:
    everything = book(auto_approve=True, max_risk=Risk.HIGH)
    for refused in (call("read_file", path="../x"), call("execute_command", command="rm"), call("nothing")):
        decision = judge.decide(refused, inspect, everything)
        assert (decision.verdict, decision.rule_id) == (Verdict.REFUSE, None)


def test_a_rule_about_paths_sees_where_a_path_really_leads(judge: Judge, inspect: Inspect) -> None:
    sources = book(auto_approve=True, tool_name="write_file", argument_pattern="src/**")
    for path, verdict in {
        "src/new.py": Verdict.RUN,
        "inner/new.py": Verdict.RUN,
        "x/../src/new.py": Verdict.RUN,
        "src/../new.py": Verdict.ASK,
        "new.py": Verdict.ASK,
    }.items():
        assert judge.decide(call("write_file", path=path, content=""), inspect, sources).verdict is verdict, path


def test_the_time_of_a_decision_is_now_unless_said(judge: Judge, inspect: Inspect) -> None:
    expiring = book(auto_approve=False, expires_at=1000.0)
    lookup = call("execute_command", command="ls")
    assert judge.decide(lookup, inspect, expiring).verdict is Verdict.RUN
    assert judge.decide(lookup, inspect, expiring, now=999.0).verdict is Verdict.ASK
    assert judge.decide(lookup, inspect, expiring, now=1000.0).verdict is Verdict.RUN


def test_an_explanation_names_the_rule(judge: Judge, inspect: Inspect) -> None:
    rules = book(auto_approve=False)
    found = judge.explain(call("execute_command", command="ls"), inspect, rules, now=0)
    assert found.decides is rules.rules[0]
    assert judge.explain(call("execute_command", command="rm"), inspect, rules).decides is None


def test_a_subject_is_the_call_as_rules_see_it(judge: Judge, inspect: Inspect) -> None:
    subject = judge.find_subject(call("command_executor", command="git", args=["log"]), inspect)
    assert subject is not None
    assert (subject.tool_name, subject.server_id, subject.text) == ("execute_command", "shell", "git log")
    assert judge.find_subject(call("execute_command", command="rm"), inspect) is None


def test_a_decision_in_json_says_what_matters(judge: Judge, inspect: Inspect) -> None:
    plain = judge.decide(call("execute_command", command="pwd"), inspect).to_json()
    assert plain == {
        "decision": "run",
        "risk": "LOW",
        "reasons": ["'pwd' shows the current directory (LOW)"],
        "code": "low_risk",
    }
    fetched = decide_git(judge, inspect, book(auto_approve=True), "fetch").to_json()
    assert (fetched["network"], fetched["rule_id"]) == (True, "r1")


def test_only_what_was_judged_to_need_it_gets_the_network_or_a_view_without_writing(
    judge: Judge, inspect: Inspect
) -> None:
    def given(tool: str, **params: Any) -> tuple[bool, bool]:
        decision = judge.decide(call(tool, **params), inspect)
        return decision.network, decision.read_only

    assert given("execute_command", command="rm") == (False, False)  # refused, and given nothing
    assert given("write_file", path="x.md", content="") == (False, False)
    assert given("execute_command", command="ls") == (False, True)
    assert given("execute_command", command="git", args=["fetch"]) == (True, False)
