"""Shell text, where a user allows a shell: every part is judged by its own table."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import msgspec
import pytest

from client_agent.config import Policy, ProgramTable
from client_agent.policy.decision import Decision, Risk, Verdict

SHELL = """
    does = "runs shell text"
    risk = "LOW"
    style = "posix"
    operands = []
    options = { shell = "-c", flag = "-e" }
    [examples]
    low = ["sh -c 'ls | wc -l'"]
    high = ["sh -c 'ls $HOME'"]
    refused = ["sh -c 'ls && rm x'"]
"""
TIMEOUT = """
    does = "runs a command for so long"
    risk = "LOW"
    operands = ["text", "command"]
    options = { flag = "--preserve-status" }
"""


@pytest.fixture
def decide(decide_with: Callable[[Policy], Callable[..., Decision]]) -> Callable[..., Decision]:
    tables = {"sh": SHELL, "timeout": TIMEOUT, "chain": 'risk = "LOW"\noperands = ["command"]'}
    return decide_with(
        Policy(programs={name: msgspec.convert(tomllib.loads(text), ProgramTable) for name, text in tables.items()})
    )


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "ls -la src | wc -l",
        "cat a.txt; echo done && pwd || date",
        "grep -rn 'foo bar' src 2>/dev/null | head -5",
        "(ls; pwd)",
        "{ ls; }",
        "! grep -q x a.txt",
        "true && false",
        "wc -l < a.txt",
        "ls 2>&1",
        "ls &",
        'grep "a b" a.txt # and why',
        "cat src/'main'.py",
        "ls\npwd\n",
        "",
    ],
)
def test_plain_look_ups_stay_low(decide: Callable[..., Decision], text: str) -> None:
    decision = decide("sh", "-c", text)
    assert (decision.verdict, decision.risk) == (Verdict.RUN, Risk.LOW), decision.reasons


@pytest.mark.parametrize(
    "text",
    [
        "ls $HOME",
        "ls ${X}",
        'ls "$HOME"',
        'ls "x!"',
        "echo a[b",
        "echo a{b",
        "echo ~",
        "echo =~x",
        "echo a$",
        "echo $",
        "echo $ b",
        'echo $"x"',
        'echo a"b"$',
        "ls a?",
        "ls a]",
        "ls a}",
        "ls a!",
        "ls a#",
        "ls 2> out.txt",
        "ls $(pwd)",
        "ls `pwd`",
        'ls "`pwd`"',
        "ls *.py",
        "ls [ab]",
        "ls ~",
        "ls {a,b}",
        "ls a\\ b",
        'ls "a\\"b"',
        "$X",
        "PATH=. ls",
        "X=1",
        "for i in a b; do ls; done",
        "if true; then ls; fi",
        "while true; do ls; done",
        "f() { ls; }",
        "cat <<E\nx\nE",
        "cat <<< x",
        "ls <(pwd)",
        "ls > out.txt",
        "ls >> out.txt",
        "ls &> out.txt",
        "ls > $X",
        "ls >&",
        "cd src",
        "eval ls",
        ". a.txt",
        "[ -f a.txt ]",
        "[[ a == b ]]",
        "ls (",
        "ls 'x",
        "echo $'a'",
        "ls \u202e",
        "ls; " * 5000,
        "(" * 5000,
        "find . -delete",
        "make test",
    ],
)
def test_what_cannot_be_known_or_does_more_asks_as_high(decide: Callable[..., Decision], text: str) -> None:
    decision = decide("sh", "-c", text)
    assert (decision.verdict, decision.risk) == (Verdict.ASK, Risk.HIGH), decision.reasons


@pytest.mark.parametrize(
    "text",
    [
        "rm x",
        "ls; rm x",
        "ls | sudo cat",
        "ls $(rm x)",
        'echo "`rm x`"',
        "for i in a; do rm a; done",
        "nosuchprogram",
        "/bin/ls",
        "cat /etc/passwd",
        "ls && cat ../outside/secret.txt",
        "cat < /etc/passwd",
        "ls > /tmp/x",
        "ls > ../x",
        "ls > .env",
        "ls > x.exe",
        "cat link/secret.txt",
        "(cd src; rm x)",
        "sh -c 'rm x'",
    ],
)
def test_a_refused_part_refuses_the_whole(decide: Callable[..., Decision], text: str) -> None:
    assert decide("sh", "-c", text).verdict is Verdict.REFUSE


def test_the_risk_is_that_of_the_riskiest_part(decide: Callable[..., Decision]) -> None:
    decision = decide("sh", "-c", "ls && git status && git fetch")
    assert (decision.risk, decision.network) == (Risk.MEDIUM, True)


@pytest.mark.parametrize("argv", [("-ec", "ls x"), ("-e", "-c", "ls")])
def test_the_text_is_found_in_a_cluster(decide: Callable[..., Decision], argv: tuple[str, ...]) -> None:
    assert decide("sh", *argv).verdict is Verdict.RUN


def test_a_script_or_further_words_are_not_part_of_the_table(decide: Callable[..., Decision]) -> None:
    assert decide("sh", "a.txt").risk is Risk.HIGH
    assert decide("sh", "-c", "ls", "x").risk is Risk.HIGH


def test_another_shell_text_is_another_class(decide: Callable[..., Decision]) -> None:
    one, other = (decide("sh", "-c", text).call_class for text in ("ls", "pwd"))
    assert one is not None
    assert other is not None
    assert not one.covers(other)


def test_a_wrapped_command_is_judged_too(decide: Callable[..., Decision]) -> None:
    assert decide("timeout", "5", "ls", "-la").verdict is Verdict.RUN
    assert decide("timeout", "--preserve-status", "5", "git", "push", "--force").risk is Risk.HIGH
    assert decide("timeout", "5", "rm", "x").verdict is Verdict.REFUSE
    assert decide("timeout", "5", "cat", "/etc/passwd").verdict is Verdict.REFUSE
    assert decide("timeout", "5", "sh", "-c", "rm x").verdict is Verdict.REFUSE
    assert decide("timeout", "--odd", "5", "ls").risk is Risk.HIGH


def test_commands_nested_beyond_reason_are_high(decide: Callable[..., Decision]) -> None:
    assert decide(*["chain"] * 4, "ls").risk is Risk.LOW
    assert decide(*["chain"] * 10, "ls").risk is Risk.HIGH
