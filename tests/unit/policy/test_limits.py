"""Limits hold to the unit: what is just within them is judged, what is just beyond is not."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import msgspec
import pytest

from client_agent.config import Policy, ProgramTable
from client_agent.policy.commands.assessment import MAX_TOTAL_BYTES
from client_agent.policy.commands.python_text import MAX_CHARS, judge_python
from client_agent.policy.commands.shell_text import MAX_BYTES
from client_agent.policy.decision import Decision, Inspect, Risk, Verdict
from client_agent.policy.paths import Protection, inspect_spelling, spelling_problem
from client_agent.policy.rules import MAX_PATTERN_CHARS, MAX_PRIORITY, RuleDraft, RuleError, check_draft

Decide = Callable[..., Decision]


@pytest.fixture
def decide_wrapped(decide_with: Callable[[Policy], Decide]) -> Decide:
    """Decides with a shell and a wrapper allowed."""
    tables = {
        "sh": 'risk = "LOW"\noperands = []\noptions = { shell = "-c" }',
        "chain": 'risk = "LOW"\noperands = ["command"]',
    }
    return decide_with(
        Policy(programs={name: msgspec.convert(tomllib.loads(text), ProgramTable) for name, text in tables.items()})
    )


def test_the_limits_are_these() -> None:
    assert (MAX_TOTAL_BYTES, MAX_CHARS, MAX_BYTES) == (1_000_000, 16_384, 16_384)
    assert (MAX_PATTERN_CHARS, MAX_PRIORITY) == (1_000, 1_000_000)


def test_all_arguments_together(decide: Decide) -> None:
    args = ["x" * 100_000] * 9 + ["x" * (100_000 - len("echo"))]
    assert decide("echo", *args).verdict is Verdict.RUN
    assert decide("echo", *args, "x").code == "argument_too_long"


def test_commands_inside_commands(decide_wrapped: Decide) -> None:
    assert decide_wrapped(*["chain"] * 4, "ls").risk is Risk.LOW
    nested = decide_wrapped(*["chain"] * 5, "ls")
    assert (nested.risk, nested.reasons[-1].code) == (Risk.HIGH, "command_nested")
    assert decide_wrapped(*["chain"] * 900, "ls").verdict is Verdict.ASK


def test_python_text(inspect: Inspect) -> None:
    longest = "x = 1 #".ljust(MAX_CHARS, "x")
    assert judge_python(longest, inspect) == []
    assert [reason.code for reason in judge_python(longest + "x", inspect)] == ["python_unparsed"]


@pytest.mark.parametrize("text", ["x = '\ud800'", "x = 1\0", "-" * 16_000 + "1", "(" * 16_000, "x" + ".a" * 8_000])
def test_python_text_that_no_parser_takes_is_not_judged(inspect: Inspect, text: str) -> None:
    assert [reason.code for reason in judge_python(text, inspect)] == ["python_unparsed"]


@pytest.mark.parametrize("value", ["..", "../x", "~/x", "../" + "x" * 252])
def test_a_string_of_python_text_that_is_a_path_outside(inspect: Inspect, value: str) -> None:
    assert [reason.code for reason in judge_python(f"f({value!r})", inspect)] == ["python_outside"]


@pytest.mark.parametrize("value", ["/", "link", "a/b\n", "/etc and more", "../" + "x" * 253, "~", "x"])
def test_a_string_of_python_text_that_is_none(inspect: Inspect, value: str) -> None:
    assert judge_python(f"f({value!r})", inspect) == []


def test_shell_text(decide_wrapped: Decide) -> None:
    assert decide_wrapped("sh", "-c", "ls".ljust(MAX_BYTES)).risk is Risk.LOW
    assert decide_wrapped("sh", "-c", "ls".ljust(MAX_BYTES + 1)).reasons[-1].code == "shell_unparsed"


@pytest.mark.parametrize("text", ["ls\tsrc", 'echo "a~b"', "cat <&0", "cat 'src'/\"main\".py", "ls 2>&1"])
def test_shell_text_that_stays_low(decide_wrapped: Decide, text: str) -> None:
    assert decide_wrapped("sh", "-c", text).verdict is Verdict.RUN


@pytest.mark.parametrize("text", ["ls 'link'", 'ls "link"', "ls li'nk'", 'cat li"nk"/secret.txt', "cat < 'link/x'"])
def test_quotes_in_shell_text_hide_nothing(decide_wrapped: Decide, text: str) -> None:
    assert decide_wrapped("sh", "-c", text).verdict is Verdict.REFUSE


def test_the_network_of_any_part_is_that_of_the_whole(decide_wrapped: Decide) -> None:
    assert decide_wrapped("sh", "-c", "git fetch && ls").network
    assert decide_wrapped("chain", "git", "fetch").network


def test_a_wrapped_command_is_a_class_of_its_own(decide_wrapped: Decide) -> None:
    one, other = (decide_wrapped("chain", "ls", name).call_class for name in ("a", "b"))
    assert one is not None
    assert other is not None
    assert not one.covers(other)


def test_paths_and_names() -> None:
    assert spelling_problem("a/" * 2047 + "b") is None
    assert spelling_problem("a/" * 2047 + "bc") is not None
    assert spelling_problem("a/" + "x" * 255 + "/b") is None
    assert spelling_problem("a/" + "x" * 256 + "/b") is not None


@pytest.mark.parametrize("path", ["a:b", "C:x", "é/..", "é/../b", "a\\..~", "é\\b"])
def test_a_spelling_that_only_looks_odd_is_no_problem(path: str) -> None:
    assert spelling_problem(path) is None


def test_a_nul_byte_is_called_one() -> None:
    nul, control = spelling_problem("a\0"), spelling_problem("a\n")
    assert nul is not None
    assert control is not None
    assert (nul.text, control.text) == ("the path holds a NUL byte", "the path holds a control character")


def test_an_absolute_path_is_not_judged_by_its_text() -> None:
    assert inspect_spelling("/../x").refusal is None
    refusals = [inspect_spelling(path).refusal for path in ("../", "../a\nb")]
    assert [refusal and refusal.code for refusal in refusals] == ["path_outside", "path_control_character"]


@pytest.mark.parametrize(
    "path", [".netrc. ", ".netrc./x", "a/.Netrc /x", "é/.netrc.", "é/.netrc. /x", ".config./gcloud"]
)
def test_dots_and_spaces_at_the_end_of_any_part_hide_no_secret(path: str) -> None:
    assert Protection().find(path) is not None


@pytest.mark.parametrize("path", [".netrc~", "é/.netrc~", "é/.../x", ".../x", "..."])
def test_nothing_else_is_taken_off_a_name(path: str) -> None:
    assert Protection().find(path) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_pattern": "x" * 1000},
        {"server_id": "x" * 1000},
        {"tool_name": "x" * 1000},
        {"argument_pattern": "x" * 1000},
        {"priority": 1_000_000},
        {"priority": -1_000_000},
        {"expires_at": 11.0},
    ],
)
def test_a_rule_within_its_limits_is_none_too_much(fields: dict[str, object]) -> None:
    check_draft(RuleDraft(auto_approve=True, **fields), 10.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_pattern": "x" * 1001},
        {"server_id": "x" * 1001},
        {"tool_name": "x" * 1001},
        {"tool_pattern": ""},
        {"server_id": ""},
        {"argument_pattern": ""},
        {"priority": -1_000_001},
        {"argument_pattern": "git -... x"},
        {"expires_at": 10.0},
    ],
)
def test_a_rule_beyond_its_limits_is_an_error(fields: dict[str, object]) -> None:
    with pytest.raises(RuleError):
        check_draft(RuleDraft(auto_approve=True, **fields), 10.0)  # type: ignore[arg-type]
