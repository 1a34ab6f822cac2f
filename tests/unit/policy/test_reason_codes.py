"""The codes that decisions rest on are stable, and every fact is told: once, in order, and in full."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable

import msgspec
import pytest

from client_agent.config import Limits, Policy, ProgramTable, Workspace
from client_agent.policy.commands.values import hides_option
from client_agent.policy.decision import Decision, Inspect, Reason, Risk, Verdict
from client_agent.policy.files import assess_list, assess_read, assess_write
from client_agent.policy.judge import Judge
from client_agent.policy.rules import Rule, RuleBook
from client_agent.protocol.calls import Call
from client_agent.protocol.tools import ListDirectory, ReadFile, WriteFile

Decide = Callable[..., Decision]


@pytest.fixture
def decide_shell(decide_with: Callable[[Policy], Decide]) -> Decide:
    """Decides shell text, where a user has allowed a shell."""
    table = 'risk = "LOW"\noperands = []\noptions = { shell = "-c" }'
    decide = decide_with(Policy(programs={"sh": msgspec.convert(tomllib.loads(table), ProgramTable)}))
    return lambda text: decide("sh", "-c", text)


def codes(decision: Decision) -> list[str]:
    return [reason.code for reason in decision.reasons]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("ls", ["command_low"]),
        ("ls --odd", ["command_low", "option_unknown"]),
        ("pwd x", ["command_low", "operand_unknown"]),
        ("find . -delete", ["command_low", "option_risky"]),
        ("git foo", ["command_high", "subcommand_unknown"]),
        ("git fetch", ["command_medium", "needs_network"]),
        ("git clone odd://example.com/x", ["command_medium", "transport_unknown", "needs_network"]),
        ("git push origin +main", ["command_medium", "overwrites_remote", "needs_network"]),
        ("date 0101", ["command_low", "sets_clock"]),
        ("date -d TZ=/x", ["command_low", "names_zone_file"]),
        ("cat ~/x", ["command_low", "seems_outside"]),
        ("cat fifo", ["command_low", "special_file"]),
        ("python -c 'import socket'", ["command_medium", "option_risky", "python_imports"]),
        ("python -c 'eval(1)'", ["command_medium", "option_risky", "python_uses"]),
        ("python -c \"open('/etc/x')\"", ["command_medium", "option_risky", "python_outside"]),
        ("python -c '('", ["command_medium", "option_risky", "python_unparsed"]),
        ("make ~/x", ["command_high", "seems_outside"]),
        ("find . -exec git status ;", ["command_low", "option_risky", "command_medium"]),
    ],
)
def test_an_asked_command_tells_every_fact(decide: Decide, line: str, told: list[str]) -> None:
    assert codes(decide(*shlex.split(line))) == told


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("rm x", "command_blacklisted"),
        ("nothing x", "command_not_allowed"),
        ("cat ../x", "path_outside"),
        ("cat .env", "path_protected"),
        ("git clone -u x https://example.com/y", "option_refused"),
        ("git clone ext::x", "transport_refused"),
        ("git clone ssh://-oProxyCommand=x/y", "transport_refused"),
        ("git clone http://localhost/x", "address_local"),
        ("tar -cf host:x a.txt", "remote_archive"),
        ("'ls\0' x", "argument_nul"),
    ],
)
def test_a_refused_command_says_what_for(decide: Decide, line: str, code: str) -> None:
    decision = decide(*shlex.split(line))
    assert (decision.verdict, decision.code, codes(decision)) == (Verdict.REFUSE, code, [code])


@pytest.mark.parametrize(
    "line", ["git clone ssh://-oProxyCommand=id@example.com/x", "npm i git+ssh://user@-oProxyCommand=id/x"]
)
def test_an_option_in_the_name_of_a_host_is_shown_with_its_whole_address(decide: Decide, line: str) -> None:
    decision = decide(*shlex.split(line))
    assert decision.code == "transport_refused"
    assert "ssh://" in decision.reasons[0].text


@pytest.mark.parametrize(
    ("rest", "hidden"),
    [
        ("-oX", True),
        ("-oX@example.com/y", True),
        ("user@-oX/y", True),
        ("example.com/user@-y", False),
        ("user-@example.com-/y", False),
    ],
)
def test_only_the_name_of_a_host_can_hide_an_option(rest: str, hidden: bool) -> None:
    assert hides_option(rest) is hidden


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ls", ["command_low"]),
        ("cd src", ["shell_builtin"]),
        ("ls > out.txt", ["command_low", "shell_writes"]),
        ("ls >& out.txt", ["command_low", "shell_writes"]),
        ("ls 2> out.txt", ["command_low", "shell_writes"]),
        ("ls\n\tpwd", ["command_low", "command_low"]),
        ("ls > 5", ["command_low", "shell_writes"]),
        ("ls \u202e", ["shell_unparsed", "command_low"]),
        ("ls 'x", ["shell_unparsed", "command_low"]),
        ("grep \\  a.txt", ["shell_unparsed", "command_low"]),
        ("ls a\\\n.txt", ["shell_unparsed", "command_low"]),
        ("ls; " * 5000, ["shell_unparsed"]),
        ("ls $(pwd)", ["shell_unknowable", "command_low"]),
        ("ls a$", ["shell_unknowable"]),
        ("ls $ a", ["shell_unknowable"]),
        ("if true; then ls; fi", ["shell_unknowable", "command_low"]),
    ],
)
def test_shell_text_tells_every_fact(decide_shell: Decide, text: str, told: list[str]) -> None:
    assert codes(decide_shell(text)) == ["command_low", *told]


def test_a_fact_names_what_it_is_about(decide: Decide) -> None:
    assert decide("cat", "../x").reasons[0].text == "'../x': the path leads outside the workspace"
    assert decide("cat", ".env").reasons[0].text == "'.env' is protected: '.env' may hold secrets"
    assert decide("qqqq").reasons[0].text == "'qqqq' is not on the list of programs that may be run"
    assert decide("git", "stash", "pop").reasons[0].text.startswith("'git stash pop' ")


def test_a_part_of_shell_text_is_named_with_what_it_is(decide_shell: Decide) -> None:
    told = decide_shell("ls $(pwd)").reasons[1].text
    assert told == "'$(pwd)' (command substitution) cannot be known beforehand"
    assert decide_shell("ls > x.exe").code == "extension_refused"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("../" + "x" * 77, repr("../" + "x" * 77)),
        ("../" + "x" * 78, repr("../" + "x" * 74 + "...")),
    ],
)
def test_what_is_long_is_shown_in_part(decide: Decide, value: str, shown: str) -> None:
    assert decide("cat", value).reasons[0].text == f"{shown}: the path leads outside the workspace"


def test_looking_says_what_is_looked_at(inspect: Inspect) -> None:
    read, listed = assess_read(ReadFile(path="inner/main.py"), inspect), assess_list(ListDirectory(path="src"), inspect)
    assert read.reasons == (Reason("reads_only", "reads 'src/main.py' inside the workspace"),)
    assert listed.reasons == (Reason("reads_only", "lists 'src' inside the workspace"),)
    assert (read.path, listed.path) == ("src/main.py", "src")
    assert read.call_class is not None
    assert listed.call_class is not None
    assert (read.call_class.label, listed.call_class.label) == ("read_file", "list_directory")


def test_writing_says_what_is_written(workspace: Workspace, inspect: Inspect) -> None:
    small = msgspec.structs.replace(workspace, limits=Limits(write_max_bytes=3))

    def write(path: str, content: str = "x") -> tuple[str | None, list[str], str | None]:
        found = assess_write(WriteFile(path=path, content=content), inspect, small)
        return found.path, [reason.code for reason in found.reasons], found.refusal and found.refusal.code

    assert write("inner/x.md") == ("src/x.md", ["writes_text"], None)
    assert write("inner/x.sh") == ("src/x.sh", ["writes_unknown"], None)
    assert write("x.md", "1234") == (None, [], "too_large")
    assert write("src") == write("fifo") == (None, [], "wrong_kind")
    assert write("x.so.1") == (None, [], "extension_refused")


def rules(**fields: object) -> RuleBook:
    return RuleBook([Rule(**{"id": "r", "created_at": 0.0, "updated_at": 0.0, **fields})])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tool", "params", "told"),
    [
        ("read_file", {"path": "a.txt"}, "reads_only"),
        ("list_directory", {"path": "src"}, "reads_only"),
        ("write_file", {"path": "a.txt", "content": ""}, "writes_text"),
        ("execute_command", {"command": "git", "args": ["status"]}, "command_medium"),
    ],
)
def test_a_rule_adds_its_reason_to_those_there_are(
    workspace: Workspace, inspect: Inspect, tool: str, params: dict[str, object], told: str
) -> None:
    judge, call = Judge(workspace), Call(tool_id="t", tool_name=tool, tool_params=params)
    assert codes(judge.decide(call, inspect)) == [told]
    assert codes(judge.decide(call, inspect, rules(auto_approve=True))) == [told, "rule_approves"]
    assert codes(judge.decide(call, inspect, rules(auto_approve=False))) == [told, "rule_asks"]


def test_what_raises_the_risk_is_told_last(workspace: Workspace, inspect: Inspect) -> None:
    call = Call(tool_id="t", tool_name="execute_command", tool_params={"command": "ls"}, server_risk="HIGH")
    decision = Judge(workspace).decide(call, inspect, rules(auto_approve=True, max_risk=Risk.MEDIUM))
    assert codes(decision) == ["command_low", "raised_by_server", "rule_exceeded"]


def test_a_class_keeps_the_network_and_the_options_as_they_were_given(decide: Decide) -> None:
    fetched, forced = decide("git", "fetch").call_class, decide("git", "push", "--force", "-o", "x").call_class
    assert fetched is not None
    assert forced is not None
    assert fetched.network
    assert forced.options == ("--force", "-o")
    assert forced.exact == ("push", "--force", "-o", "x")
    one, other = (decide("ls", "-I", name).call_class for name in ("a", "b"))
    assert one is not None
    assert one == other, "a value that raises nothing is no part of the class"
