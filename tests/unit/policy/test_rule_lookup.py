"""Rules are found by how their patterns begin, and that changes nothing but the time it takes."""

from __future__ import annotations

from typing import Any

import pytest

from client_agent.policy.decision import Risk
from client_agent.policy.rules import Rule, RuleBook, RuleDraft, RuleError, Subject, check_draft


def rule(rule_id: str = "r", **fields: Any) -> Rule:
    return Rule(id=rule_id, created_at=0.0, updated_at=0.0, **{"auto_approve": True, **fields})


def found(subject: Subject, *rules: Rule) -> list[str]:
    """The rule that decides, and those that come too late."""
    explanation = RuleBook(rules).explain(subject, 0.0)
    decides = [] if explanation.decides is None else [explanation.decides]
    return [rule.id for rule in (*decides, *explanation.too_late)]


def command(*argv: str) -> Subject:
    return Subject(tool_name="execute_command", server_id="shell", risk=Risk.LOW, argv=argv)


def path(name: str) -> Subject:
    return Subject(tool_name="read_file", server_id="filesystem", risk=Risk.LOW, path=name)


def test_every_rule_that_matches_is_found_once() -> None:
    rules = [rule("git", priority=1, argument_pattern="git log"), rule("any"), rule("svn", argument_pattern="svn log")]
    assert found(command("git", "log"), *rules) == ["git", "any"]
    assert found(command("ls"), *rules) == found(command(), *rules) == found(path("git"), *rules) == ["any"]


@pytest.mark.parametrize("name", ["src/main.py", "src", "/bin/ls", "/x", "a b/c"])
def test_a_pattern_without_stars_matches_the_path_that_it_spells(name: str) -> None:
    spelled = rule(argument_pattern=f"'{name}'")
    assert found(path(name), spelled) == ["r"]
    assert found(path(name + "x"), spelled) == []


@pytest.mark.parametrize("name", ["/bin/ls", "ls"])
def test_a_pattern_without_stars_matches_the_command_that_it_spells(name: str) -> None:
    assert found(command(name), rule(argument_pattern=name)) == ["r"]


@pytest.mark.parametrize("pattern", ["s?c/x", "s*/x", "**/x", "*/x", "?rc/x"])
def test_a_pattern_may_begin_with_anything(pattern: str) -> None:
    assert found(path("src/x"), rule(argument_pattern=pattern)) == ["r"]


def test_a_pattern_of_several_words_is_for_no_path() -> None:
    assert found(path("git"), rule(argument_pattern="git log")) == []
    assert found(path("a\nb"), rule(argument_pattern="**")) == found(path("a\nb"), rule()) == ["r"]


def test_a_tool_pattern_alone_is_enough() -> None:
    check_draft(RuleDraft(auto_approve=True, tool_pattern="read_*"), 0.0)
    with pytest.raises(RuleError, match="not both"):
        check_draft(RuleDraft(auto_approve=True, tool_name="x", tool_pattern="read_*"), 0.0)


def test_what_a_rule_leaves_out_is_this() -> None:
    draft = RuleDraft(auto_approve=True)
    assert (draft.priority, draft.max_risk, draft.note, draft.expires_at) == (0, Risk.MEDIUM, "", None)
