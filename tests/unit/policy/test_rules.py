"""Permission rules: which one decides, and what an argument pattern lets through."""

from __future__ import annotations

from typing import Any

import pytest

from client_agent.policy.decision import Risk
from client_agent.policy.rules import Rule, RuleBook, RuleDraft, RuleError, Subject, check_draft, select_matching

NOW = 1_000_000.0


def rule(rule_id: str = "r", *, auto_approve: bool = True, created_at: float = 0.0, **fields: Any) -> Rule:
    return Rule(id=rule_id, auto_approve=auto_approve, created_at=created_at, updated_at=created_at, **fields)


def tool(tool_name: str, server_id: str = "filesystem", path: str | None = None) -> Subject:
    return Subject(tool_name=tool_name, server_id=server_id, risk=Risk.LOW, path=path)


def command(*argv: str, risk: Risk = Risk.MEDIUM) -> Subject:
    return Subject(tool_name="execute_command", server_id="shell", risk=risk, argv=argv)


def winner(subject: Subject, *rules: Rule) -> str | None:
    found = RuleBook(rules).match(subject, NOW)
    return None if found is None else found.id


EXAMPLE_TABLE = RuleBook(
    [
        rule("read", priority=100, server_id="filesystem", tool_pattern="read_*"),
        rule("delete", priority=100, server_id="filesystem", tool_pattern="delete_*", auto_approve=False),
        rule("shell", priority=50, server_id="shell", tool_name="execute_command", auto_approve=False),
        rule("weather", priority=10, server_id="weather-server"),
        rule("default", priority=0, auto_approve=False),
    ]
)


@pytest.mark.parametrize(
    ("subject", "expected", "approves"),
    [
        (tool("read_file"), "read", True),
        (tool("READ_Everything"), "read", True),
        (tool("delete_file"), "delete", False),
        (command("ls"), "shell", False),
        (tool("forecast", "weather-server"), "weather", True),
        (tool("read_file", "weather-server"), "weather", True),
        (tool("read_file", "elsewhere"), "default", False),
        (tool("write_file"), "default", False),
        (tool("execute_command", "filesystem"), "default", False),
    ],
)
def test_the_example_table_decides_as_it_says(subject: Subject, expected: str, approves: bool) -> None:
    found = EXAMPLE_TABLE.match(subject, NOW)
    assert found is not None
    assert (found.id, found.auto_approve) == (expected, approves)


def test_no_rule_no_match() -> None:
    assert winner(tool("read_file")) is None
    assert winner(tool("read_file"), rule(server_id="other")) is None


def test_the_higher_priority_decides_wherever_it_stands() -> None:
    low, high = rule("low", priority=1, created_at=9), rule("high", priority=2)
    assert winner(tool("x"), low, high) == winner(tool("x"), high, low) == "high"
    assert winner(tool("x"), rule("minus", priority=-1, created_at=9), rule("zero")) == "zero"


def test_of_equal_priority_the_newest_decides_then_the_id() -> None:
    old, new = rule("a", created_at=1), rule("b", created_at=2)
    assert winner(tool("x"), old, new) == winner(tool("x"), new, old) == "b"
    first, second = rule("a", created_at=1), rule("b", created_at=1)
    assert winner(tool("x"), first, second) == winner(tool("x"), second, first) == "a"


def test_an_expired_rule_is_as_if_it_were_not_there() -> None:
    expired, standing = rule("old", priority=9, expires_at=NOW), rule("new", expires_at=NOW + 1)
    assert winner(tool("x"), expired, standing) == "new"
    assert winner(tool("x"), expired) is None


def test_a_tool_name_is_compared_exactly_and_an_alias_means_its_tool() -> None:
    assert winner(tool("read_file"), rule(tool_name="Read_File")) is None
    assert winner(tool("read_file"), rule(tool_name="read_")) is None
    assert winner(command("ls"), rule(tool_name="command_executor")) == "r"


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("*", "x", True),
        ("read_*", "read_", True),
        ("*_FILE", "read_file", True),
        ("r*d_*", "read_file", True),
        ("read", "read_file", False),
        ("read.file", "read_file", False),
        ("re[a]d*", "read_file", False),
        ("?", "x", False),
    ],
)
def test_in_a_tool_pattern_only_the_star_is_special(pattern: str, name: str, fits: bool) -> None:
    assert (winner(tool(name), rule(tool_pattern=pattern)) is not None) is fits


@pytest.mark.parametrize(
    ("pattern", "line", "fits"),
    [
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git status", "git", False),
        ("git log *", "git log main", True),
        ("git log *", "git log", False),
        ("git log *", "git log a b", False),
        ("git log *", "git log --output=x", False),
        ("git log ...", "git log", True),
        ("git log ...", "git log a b", True),
        ("git log ...", "git log a --output=x", False),
        ("git log ...", "git log -- a", False),
        ("git log -- ...", "git log -- a", True),
        ("git log -...", "git log --oneline a -5", True),
        ("git log -...", "git show", False),
        ("git log --format=*", "git log --format=%H", True),
        ("git log --format=*", "git log --output=x", False),
        ("npm run test:*", "npm run test:unit", True),
        ("npm run test:*", "npm run test", False),
        ("git commit -m *", "git commit -m x", True),
        ("git commit -m *", "git commit -m --amend", False),
        ("* --version", "node --version", True),
        ("GIT status", "git status", False),
        ("git stat.s", "git status", False),
        ("...", "ls a", True),
        ("...", "ls -a", False),
        ("-...", "ls -a", True),
        ("cat 'a b'", "cat a|b", False),
    ],
)
def test_an_argument_pattern_that_approves_lets_no_other_option_through(pattern: str, line: str, fits: bool) -> None:
    assert (winner(command(*line.split()), rule(argument_pattern=pattern)) is not None) is fits


def test_a_quoted_word_of_a_pattern_is_one_argument() -> None:
    quoted = rule(argument_pattern="git commit -m 'fix *'")
    assert winner(command("git", "commit", "-m", "fix the\nthing"), quoted) == "r"
    assert winner(command("git", "commit", "-m", "fix", "it"), quoted) is None


@pytest.mark.parametrize("line", ["git push", "git push --force", "git push -f origin", "git push origin main"])
def test_a_rule_that_asks_is_wide(line: str) -> None:
    asking = rule("ask", auto_approve=False, priority=9, argument_pattern="git push ...")
    assert winner(command(*line.split()), asking, rule("all")) == "ask"
    starred = rule("star", auto_approve=False, priority=9, argument_pattern="git push *")
    assert (winner(command("git", "push", "--force"), starred)) == "star"


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("src/*", "src/a.py", True),
        ("src/*", "src/deep/a.py", False),
        ("src/**", "src/deep/a.py", True),
        ("./src/**", "src/a.py", True),
        ("**/*.md", "README.md", True),
        ("*.md", "docs/a.md", False),
        ("'my dir/*'", "my dir/a", True),
        ("src", "src/a.py", False),
        ("src a.py", "src", False),
        ("a?c", "abc", True),
    ],
)
def test_a_path_pattern_crosses_directories_only_with_two_stars(pattern: str, path: str, fits: bool) -> None:
    assert (winner(tool("read_file", path=path), rule(argument_pattern=pattern)) is not None) is fits


def test_rules_of_another_beginning_do_not_hide_those_without_one() -> None:
    rules = [
        rule("git", priority=1, argument_pattern="git status"),
        rule("any", priority=2, argument_pattern="* status"),
    ]
    assert winner(command("git", "status"), *rules) == "any"
    assert winner(command("git", "status"), rule("git", priority=3, argument_pattern="git status"), *rules[1:]) == "git"
    assert winner(command("svn", "status"), *rules) == "any"


def test_an_argument_pattern_matches_nothing_where_there_are_no_arguments() -> None:
    assert winner(tool("sys_monitor", "system"), rule(argument_pattern="git *")) is None
    assert winner(tool("sys_monitor", "system"), rule(argument_pattern="...")) == "r"


@pytest.mark.parametrize("subject", [tool("sys_monitor"), tool("read_file", path="a"), command("ls"), command("'")])
def test_a_pattern_that_cannot_be_read_approves_nothing_and_asks_about_everything(subject: Subject) -> None:
    assert winner(subject, rule(argument_pattern="'")) is None
    assert winner(subject, rule(argument_pattern="'", auto_approve=False)) == "r"


def test_an_explanation_names_the_rule_that_decides_and_those_that_come_too_late() -> None:
    rules = [rule("a", priority=3), rule("b", priority=2, server_id="other"), rule("c", priority=1)]
    explanation = RuleBook(rules).explain(tool("x"), NOW)
    assert explanation.decides is rules[0]
    assert explanation.too_late == (rules[2],)
    assert RuleBook().explain(tool("x"), NOW).decides is None


def test_what_a_rule_would_match_among_recorded_calls() -> None:
    calls = [command("git", "log"), command("git", "push"), tool("read_file", path="a")]
    assert select_matching(rule(argument_pattern="git log ..."), calls, NOW) == calls[:1]


def test_the_arguments_of_a_call_are_shown_as_a_pattern_is_written() -> None:
    assert command("git", "commit", "-m", "a b").text == "git commit -m 'a b'"
    assert tool("read_file", path="my file").text == "'my file'"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tool_name": ""}, "tool_name: expected 1 to"),
        ({"argument_pattern": "x" * 1001}, "argument_pattern: expected 1 to"),
        ({"tool_name": "a", "tool_pattern": "b"}, "give one of them, not both"),
        ({"tool_name": "read_*"}, "use tool_pattern"),
        ({"priority": 1_000_001}, "priority: found 1000001"),
        ({"expires_at": NOW}, "expires_at: 1970-01-12 13:46:40Z is in the past"),
        ({"argument_pattern": "it's"}, "look at its quotes"),
        ({"argument_pattern": " "}, "is not a command line or path"),
        ({"argument_pattern": "git ... x"}, "can only stand at the end"),
    ],
)
def test_a_rule_that_cannot_be_meant_so_is_an_error(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(RuleError, match=said) as caught:
        check_draft(RuleDraft(auto_approve=True, **fields), NOW)
    assert caught.value.code == "rule_invalid"


def test_an_ordinary_rule_is_no_error() -> None:
    check_draft(RuleDraft(auto_approve=False), NOW)
    check_draft(
        RuleDraft(auto_approve=True, tool_name="x", argument_pattern="git log -...", priority=-5, expires_at=NOW + 1),
        NOW,
    )


def test_the_rules_are_listed_in_the_order_in_which_they_are_tried() -> None:
    rules = [rule("c", priority=1, created_at=1), rule("b", priority=1, created_at=2), rule("a", priority=5)]
    assert [found.id for found in RuleBook(rules).rules] == ["a", "b", "c"]
