"""What must hold for every command and every set of rules, tried on many."""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client_agent.config import Workspace
from client_agent.policy.commands.tables import builtin_programs
from client_agent.policy.decision import Decision, Inspect, Risk, Verdict
from client_agent.policy.judge import Judge
from client_agent.policy.rules import Rule, RuleBook, Subject
from client_agent.protocol.calls import Call

Decide = Callable[..., Decision]

SHARED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PROGRAMS = sorted(builtin_programs().names)
READERS = ["cat", "head", "tail", "wc", "ls", "find"]
WORDS = ["a.txt", "src", "-n", "-l", "-r", "x", "--", "-", "log", "status", "run", "5", "-la", "--all", "-name", "*.py"]

arguments = st.lists(st.sampled_from(WORDS), max_size=5)
unknown_options = st.text(string.ascii_lowercase + "-", min_size=1, max_size=12).map(lambda text: f"--zz-{text}")
severity = {Verdict.RUN: 0, Verdict.ASK: 1, Verdict.REFUSE: 2}


def rank(decision: Decision) -> tuple[int, int]:
    return severity[decision.verdict], decision.risk


@SHARED
@given(program=st.sampled_from(PROGRAMS), args=arguments, option=unknown_options, data=st.data())
def test_an_unknown_option_never_makes_a_command_less_risky(
    decide: Decide, program: str, args: list[str], option: str, data: st.DataObject
) -> None:
    # Behind an option it would be that option's value, and so no option at all.
    places = [place for place in range(len(args) + 1) if place == 0 or not args[place - 1].startswith("-")]
    place = data.draw(st.sampled_from(places))
    assert rank(decide(program, *args[:place], option, *args[place:])) >= min(
        rank(decide(program, *args)), (1, Risk.HIGH)
    )


@SHARED
@given(
    program=st.sampled_from([*READERS, "grep"]),
    args=st.lists(st.sampled_from(["a.txt", "src", "-n"])),
    option=unknown_options,
)
def test_an_unknown_option_before_the_operands_is_never_low(
    decide: Decide, program: str, args: list[str], option: str
) -> None:
    assert decide(program, option, *args).verdict is not Verdict.RUN


OUTSIDE = ["/etc/passwd", "../outside/secret.txt", "link/secret.txt", "..", "src/../../outside", ".env", "/"]


@SHARED
@given(program=st.sampled_from([p for p in PROGRAMS if p != "echo"]), args=arguments, path=st.sampled_from(OUTSIDE))
def test_a_path_outside_put_at_the_end_never_runs(decide: Decide, program: str, args: list[str], path: str) -> None:
    takes_text = {"-n", "-name", "run", "log", "x"}  # the value of an option, or the pattern of grep, is no path
    if program in ("grep", "date") or (args and args[-1] in takes_text):
        args = [*args, "x", "x"]
    if program == "find":
        args = [arg for arg in args if arg != "-name"]
    assert decide(program, *args, path).verdict is not Verdict.RUN


def spellings(path: str, root: Path) -> st.SearchStrategy[str]:
    """Ways to write the same path."""
    parts = path.split("/")
    joins = st.lists(st.sampled_from(["/", "//", "/./"]), min_size=len(parts), max_size=len(parts))
    prefixes = st.sampled_from(["", "./", ".//", "x/../", "src/../", "x/../src/../", f"{root}/", f"{root}/./x/../"])
    return st.builds(
        lambda prefix, joined: (
            prefix + "".join(part + join for part, join in zip(parts, joined, strict=True)).rstrip("/.")
        ),
        prefixes,
        joins,
    )


@SHARED
@given(data=st.data())
@pytest.mark.parametrize("path", ["src/main.py", "src/deep", "link/secret.txt", ".env", "a.txt", "inner/main.py"])
@pytest.mark.parametrize("command", [["cat"], ["grep", "-r", "x"], ["git", "add"], ["find"], ["zip", "a.zip"]])
def test_a_path_spelled_in_any_way_gets_the_same_decision(
    decide: Decide, root: Path, command: list[str], path: str, data: st.DataObject
) -> None:
    spelled = data.draw(spellings(path, root))
    assert rank(decide(*command, spelled)) == rank(decide(*command, path))


subjects = st.builds(
    Subject,
    tool_name=st.sampled_from(["read_file", "execute_command"]),
    server_id=st.sampled_from(["filesystem", "shell"]),
    risk=st.sampled_from(Risk),
    argv=st.lists(st.sampled_from(["git", "log", "-x", "a"]), max_size=4).map(tuple),
)
rule_lists = st.lists(
    st.builds(
        Rule,
        id=st.uuids().map(str),
        auto_approve=st.booleans(),
        priority=st.integers(-2, 2),
        created_at=st.floats(0, 3).map(round).map(float),
        updated_at=st.just(0.0),
        server_id=st.sampled_from([None, "shell", "filesystem"]),
        tool_pattern=st.sampled_from([None, "*", "read*", "EXECUTE_*"]),
        argument_pattern=st.sampled_from([None, "git log ...", "* *", "git -...", "-...", "a"]),
        expires_at=st.sampled_from([None, 5.0, 15.0]),
    ),
    max_size=8,
    unique_by=lambda rule: rule.id,
)


@SHARED
@given(rules=rule_lists, subject=subjects, data=st.data())
def test_the_order_in_which_rules_are_given_does_not_matter(
    rules: list[Rule], subject: Subject, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(rules))
    assert RuleBook(rules).match(subject, 10.0) == RuleBook(shuffled).match(subject, 10.0)


@SHARED
@given(rules=rule_lists, subject=subjects)
def test_the_rule_that_decides_is_the_first_of_those_that_match_alone(rules: list[Rule], subject: Subject) -> None:
    alone = [rule for rule in rules if RuleBook([rule]).match(subject, 10.0) is not None]
    best = min(alone, key=lambda rule: (-rule.priority, -rule.created_at, rule.id), default=None)
    explanation = RuleBook(rules).explain(subject, 10.0)
    assert explanation.decides == best
    assert len(explanation.too_late) == max(len(alone) - 1, 0)


@SHARED
@given(program=st.sampled_from(PROGRAMS), args=st.lists(st.text(max_size=8) | st.sampled_from(WORDS), max_size=5))
def test_every_command_gets_an_answer_and_always_the_same(decide: Decide, program: str, args: list[str]) -> None:
    assert decide(program, *args) == decide(program, *args)


RISKY = ["ls", "git status", "git push --force", "tar -tf a.tar", "cat /etc/passwd", "rm x"]
word_rules = rule_lists.map(
    lambda rules: [msgspec.structs.replace(rule, server_id=None, tool_pattern=None, expires_at=None) for rule in rules]
)


@SHARED
@given(
    rules=word_rules, line=st.sampled_from(RISKY), max_risk=st.sampled_from(Risk), theirs=st.sampled_from([None, *Risk])
)
def test_no_rule_and_no_word_of_the_server_lets_through_more_than_it_may(
    workspace: Workspace, inspect: Inspect, rules: list[Rule], line: str, max_risk: Risk, theirs: Risk | None
) -> None:
    command, *args = line.split()
    call = Call(tool_id="t", tool_name="execute_command", tool_params={"command": command, "args": args})
    judge = Judge(workspace)
    bare = judge.decide(call, inspect)
    call = msgspec.structs.replace(call, server_risk=theirs.name if theirs else None)
    book = RuleBook(msgspec.structs.replace(rule, max_risk=max_risk) for rule in rules)
    found = judge.decide(call, inspect, book)
    assert found.risk == max(bare.risk, theirs or Risk.LOW) or bare.verdict is Verdict.REFUSE
    assert (found.verdict is Verdict.REFUSE) == (bare.verdict is Verdict.REFUSE)
    if found.verdict is Verdict.RUN and found.risk > Risk.LOW:
        assert found.rule_id is not None
        assert found.risk <= max_risk


more_words = st.sampled_from([*WORDS, "-m", "--dry-run", "add", "rm", "--cached", "-f"])
commands = st.builds(
    lambda program, args: [program, *args],
    st.sampled_from(["git", "npm", "python", "ls", "tail", "grep"]),
    st.lists(more_words, max_size=4),
)


@SHARED
@given(allowed=commands, asked=commands, third=commands)
def test_a_class_covers_itself_and_what_its_members_cover_and_nothing_riskier(
    decide: Decide, allowed: list[str], asked: list[str], third: list[str]
) -> None:
    one, two, three = (decide(*argv).call_class for argv in (allowed, asked, third))
    if one is None or two is None or three is None:
        return
    assert one.covers(one)
    if one.covers(two):
        assert two.risk <= one.risk
        assert (two.network, two.label) <= (one.network, one.label)
    if one.covers(two) and two.covers(three):
        assert one.covers(three)
