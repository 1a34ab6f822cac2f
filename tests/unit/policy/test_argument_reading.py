"""How the arguments of a command are read, tried on tables made for it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from client_agent.config import Policy, ProgramTable
from client_agent.policy.decision import Decision, Risk, Verdict

Decide = Callable[..., Decision]
Table = Callable[[str], Decide]

LOW = (Verdict.RUN, Risk.LOW)
HIGH = (Verdict.ASK, Risk.HIGH)


@pytest.fixture
def with_table(decide_with: Callable[[Policy], Decide]) -> Table:
    """Decides commands of a program `jot`, which is LOW unless its table says otherwise."""

    def build(text: str) -> Decide:
        table = msgspec.convert({"risk": "LOW", **tomllib.loads(text)}, ProgramTable)
        decide = decide_with(Policy(programs={"jot": table}))
        return lambda *args: decide("jot", *args)

    return build


def judged(decision: Decision) -> tuple[Verdict, Risk]:
    return decision.verdict, decision.risk


def codes(decision: Decision) -> list[str]:
    return [reason.code for reason in decision.reasons]


def test_a_single_dash_is_an_operand(decide: Decide, with_table: Table) -> None:
    assert decide("grep", "-", "../outside/secret.txt").verdict is Verdict.REFUSE
    assert decide("grep", "-", "a.txt").verdict is Verdict.RUN
    scanned = with_table('style = "scan"\noperands = ["text", "path"]')
    assert scanned("-", "link").verdict is Verdict.REFUSE
    assert judged(scanned("-", "link/..")) != LOW


def test_behind_two_dashes_everything_is_an_operand(decide: Decide) -> None:
    assert judged(decide("cat", "--", "-x", "--odd")) == LOW
    assert decide("cat", "--", "-x", "/etc/passwd").verdict is Verdict.REFUSE


def test_a_number_behind_a_dash_is_an_option_only_where_the_table_says_so(decide: Decide) -> None:
    assert judged(decide("head", "-5", "a.txt")) == LOW
    assert judged(decide("ls", "-5")) == HIGH
    assert judged(decide("head", "-٥", "a.txt")) == HIGH


def test_an_option_whose_value_is_optional_may_have_none(with_table: Table) -> None:
    decide = with_table('operands = []\noptions = { "any?" = "--colour" }')
    assert judged(decide("--colour")) == LOW
    assert judged(decide("--colour=auto")) == LOW
    assert decide("--colour=/etc/passwd").verdict is Verdict.REFUSE


def test_an_option_given_a_value_that_it_does_not_take_is_not_understood(with_table: Table) -> None:
    decide = with_table('operands = []\noptions = { flag = "--quiet -q", text = "--name -n" }')
    assert judged(decide("--quiet")) == LOW
    assert codes(decide("--quiet=yes")) == ["command_low", "option_unknown"]
    assert judged(decide("--name=x")) == LOW
    assert judged(decide("--name", "x")) == LOW
    assert judged(decide("-qn", "x")) == judged(decide("-qnx")) == LOW
    assert codes(decide("--name")) == codes(decide("-qn")) == ["command_low", "option_unknown"]


def test_an_option_that_needs_the_network_says_so(with_table: Table) -> None:
    decide = with_table(
        'operands = []\nraises = [{ options = "-f", risk = "MEDIUM", network = true, why = "x" }]\noptions.flag = "-q"'
    )
    assert decide("-f").network
    assert decide("-f", "-q").network
    assert not decide("-q").network


def test_what_an_option_stands_for_is_not_expected_as_an_operand(with_table: Table) -> None:
    decide = with_table('operands = ["text", "path"]\noptions = { text = "-e" }\nfirst_given_by = "-e"')
    assert judged(decide("link", "a.txt")) == LOW
    assert judged(decide("-e", "x", "a.txt")) == LOW
    assert decide("-e", "x", "link").verdict is Verdict.REFUSE
    assert judged(decide("-e", "x", "a.txt", "b.txt")) == HIGH
    wrapping = with_table('operands = ["text", "command"]\noptions = { text = "-t" }\nfirst_given_by = "-t"')
    assert judged(wrapping("-t", "5", "ls", "src")) == LOW
    assert wrapping("-t", "5", "cat", "link").verdict is Verdict.REFUSE
    assert judged(wrapping("5", "ls", "src")) == LOW


def test_what_stands_before_a_sub_command_is_judged_too(with_table: Table) -> None:
    decide = with_table('operands = ["path", "sub"]\n[sub.show]\noperands = ["text"]')
    assert judged(decide("a.txt", "show", "x")) == LOW
    assert decide("link", "show", "x").verdict is Verdict.REFUSE
    assert judged(decide("a.txt", "show", "x", "y")) == HIGH


def test_an_option_before_a_sub_command_does_not_stand_for_its_operand(with_table: Table) -> None:
    decide = with_table(
        'operands = ["sub"]\noptions = { text = "-e" }\n[sub.find]\noperands = ["text", "path"]\nfirst_given_by = "-e"'
    )
    assert judged(decide("find", "-e", "x", "a.txt")) == LOW
    assert judged(decide("-e", "x", "find", "link", "a.txt")) == LOW


def test_an_unknown_sub_command_is_looked_through(decide: Decide) -> None:
    decision = decide("git", "foo", "-x", "y", "z")
    assert codes(decision) == ["command_high", "subcommand_unknown"]
    assert not decision.network
    assert "'git foo': " in decision.reasons[1].text
    assert len(decision.reasons[1].text) > len("'git foo': ")
    assert decide("git", "foo", "y", "/etc/passwd").verdict is Verdict.REFUSE
    assert decide("git", "foo", "-x../outside").verdict is Verdict.REFUSE


def test_directories_of_the_system_are_those_of_the_table_reached(with_table: Table) -> None:
    decide = with_table(
        'operands = ["sub"]\npublic = ["/usr/share"]\n'
        '[sub.own]\npublic = ["/usr/include"]\noperands = ["path..."]\n[sub.same]\noperands = ["path..."]'
    )
    assert judged(decide("own", "/usr/include", "/usr/include/x.h", "/dev/null")) == LOW
    assert decide("own", "/usr/share/x").verdict is Verdict.REFUSE
    assert judged(decide("same", "/usr/share/x")) == LOW
    for path in ("/usr/share/..", "/usr/share/../x", "/usr/shared", "/usr"):
        assert decide("same", path).verdict is Verdict.REFUSE, path


def test_the_network_of_a_program_is_that_of_its_sub_commands(with_table: Table) -> None:
    decide = with_table('operands = ["sub"]\nnetwork = true\n[sub.x]\noperands = []')
    assert decide("x").network


def test_a_command_of_find_ends_where_find_says(decide: Decide) -> None:
    for end in (";", "+"):
        decision = decide("find", ".", "-exec", "cat", "a.txt", end, "-name", "../x")
        assert judged(decision) == HIGH, decision.reasons
        assert decide("find", ".", "-exec", "cat", end, "link").verdict is Verdict.REFUSE
    assert (
        decide("find", ".", "-exec", "git", "clone", "-u", "x", "https://example.com/y", ";").code == "option_refused"
    )


def test_what_find_takes_as_an_operator_is_no_path_of_ours(decide: Decide) -> None:
    line = ["find", "(", "-name", "*.py", "-o", "!", "-name", "x", ")", ",", "-print"]
    assert judged(decide(*line)) == LOW


def test_of_a_program_that_is_looked_through_operands_are_of_the_kinds_its_table_names(with_table: Table) -> None:
    decide = with_table('style = "scan"\noperands = ["text", "path"]')
    assert judged(decide("link", "a.txt")) == LOW
    assert decide("x", "link").verdict is Verdict.REFUSE
    assert judged(decide("-v", "link", "a.txt")) == LOW
    assert decide("-v", "x", "-w", "link").verdict is Verdict.REFUSE
    assert decide("x", "a.txt", "/etc/passwd").verdict is Verdict.REFUSE


def test_a_path_may_be_attached_to_the_last_of_several_letters(with_table: Table) -> None:
    decide = with_table('style = "scan"\noperands = ["text..."]\noptions = { path = "-C", text = "-t" }')
    for option in ("-Clink", "-xClink", "-C../outside"):
        assert decide(option).verdict is Verdict.REFUSE, option
    for option in ("-C", "-Csrc", "-xtlink", "--xClink", "-Csrc/Clink", "--link"):
        assert decide(option).verdict is Verdict.RUN, option


def test_options_of_a_program_that_is_looked_through_raise_its_risk(with_table: Table) -> None:
    decide = with_table('style = "scan"\nraises = [{ options = "--run", why = "runs it", takes = "text" }]')
    assert judged(decide("--other=x")) == LOW
    assert codes(decide("--run=x")) == codes(decide("--run")) == ["command_low", "option_risky"]


def test_what_may_be_a_path_is_refused_only_where_it_is_certain(with_table: Table, root: Path) -> None:
    decide = with_table('operands = ["any..."]')
    for value in ("x", "a\nb", "-", "/dev/null", f"{root}/a.txt", "--link", "x=1,y", "https://example.com/../x"):
        assert judged(decide(f"{value}") if not value.startswith("-") else decide("--", value)) == LOW, value
    for value in ("~/x", "~/../../x", "/api/v1", "../a\nb", "/a\nb"):
        decision = decide(value)
        assert (judged(decision), codes(decision)[-1]) == (HIGH, "seems_outside"), value
    for value in ("link", "../x~", "x=link", "a,link", "x@link:1", "/etc/x--", "-x/etc/x--", "-x/etc/x", ".env"):
        assert (decide("--", value).verdict) is Verdict.REFUSE, value
    assert decide(f"file://{root}/a.txt").verdict is Verdict.RUN
    assert decide("file:///etc/passwd").verdict is Verdict.REFUSE


def test_of_very_many_parts_those_that_lead_out_are_looked_at(with_table: Table) -> None:
    decide = with_table('operands = ["any..."]')
    assert decide(",".join(["x"] * 15 + ["link"])).verdict is Verdict.REFUSE
    for outside in ("../outside", "/etc"):
        assert decide(",".join(["x"] * 40 + [outside])).verdict is Verdict.REFUSE


def test_a_remote_of_git_is_told_from_a_path(decide: Decide) -> None:
    assert decide("git", "clone", "https://example.com/a::b").verdict is Verdict.ASK
    assert decide("git", "clone", "ext::sh -c x").verdict is Verdict.REFUSE
    assert decide("git", "clone", "/etc/x:y").verdict is Verdict.REFUSE
    assert decide("git", "clone", "example.com:/etc/x").verdict is Verdict.ASK
    assert decide("git", "clone", "file:///etc").verdict is Verdict.REFUSE
