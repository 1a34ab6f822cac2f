"""Rules, grants, audit and why, from the command line, beside a daemon that runs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from client_agent.approvals.questions import Answer, Outcome, Scope
from client_agent.policy.decision import Risk
from tests.integration.daemon.conftest import World, world  # noqa: F401 - a fixture

PROGRAM = str(Path(sys.executable).parent / "client-agent")


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60, check=False, env=os.environ)


def answer(*args: str) -> Any:
    done = run(*args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def arun(*args: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(run, *args)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLIENT_AGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CLIENT_AGENT_CONFIG", str(tmp_path / "none.toml"))
    (tmp_path / "ws").mkdir()
    return tmp_path


def test_a_rule_is_added_listed_changed_and_removed(home: Path) -> None:
    added = answer("rules", "add", "--auto-approve", "--tool-name", "write_file", "--priority", "5", "--note", "mine")
    rule_id = added["rule"]["id"]
    assert (added["rule"]["max_risk"], added["matches"]) == ("MEDIUM", 0)
    (listed,) = answer("rules", "list")["rules"]
    assert (listed["id"], listed["priority"], listed["note"]) == (rule_id, 5, "mine")
    edit = ("rules", "edit", rule_id[:6], "--max-risk", "HIGH", "--tool-name", "", "--tool-pattern", "write_*")
    changed = answer(*edit)["rule"]
    assert (changed["max_risk"], changed["tool_name"], changed["tool_pattern"]) == ("HIGH", None, "write_*")
    assert changed["auto_approve"] is True
    assert "approve ≤HIGH" in run("rules", "list").stdout
    assert run("rules", "remove", rule_id).returncode == 0
    assert answer("rules", "list")["rules"] == []
    assert "no rules" in run("rules", "list").stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("add", "--tool-name", "x"), "--auto-approve or --require-approval"),
        (("add", "--auto-approve"), "give it a condition"),
        (("remove", ""), "no rule begins"),
        (("add", "--auto-approve", "--tool-name", "read_*"), "use tool_pattern"),
        (("add", "--auto-approve", "--argument-pattern", "'a"), "quotes"),
        (("add", "--auto-approve", "--tool-name", "x", "--expires", "soon"), "30m, 8h, 7d"),
        (("add", "--auto-approve", "--tool-name", "x", "--expires", "2001-01-01"), "past"),
        (("edit", "nope", "--priority", "1"), "no rule begins"),
        (("remove", "nope"), "no rule begins"),
        (("preset", "nope"), "there are: read-only-git"),
        (("simulate",), "--auto-approve or --require-approval"),
    ],
)
def test_a_rule_that_cannot_be_meant_gets_a_clear_word(home: Path, args: tuple[str, ...], words: str) -> None:
    done = run("rules", *args)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_preset_is_turned_on_once_and_off(home: Path) -> None:
    assert "read-only-git" in run("rules", "preset").stdout
    for _ in range(2):
        assert run("rules", "preset", "read-only-git").returncode == 0
    rules = answer("rules", "list")["rules"]
    assert rules
    assert len({rule["argument_pattern"] for rule in rules}) == len(rules)
    test = (
        "rules",
        "test",
        "execute_command",
        '{"command": "git", "args": ["log", "--oneline"]}',
        "-w",
        str(home / "ws"),
    )
    told = answer(*test)
    assert (told["decision"], told["decides"]["note"]) == ("run", "read-only-git")
    assert "decides:" in run(*test).stdout
    answer("rules", "add", "--require-approval", "--tool-name", "read_file", "--note", "read-only-git")
    run("rules", "preset", "read-only-git", "--off")
    assert [rule["tool_name"] for rule in answer("rules", "list")["rules"]] == ["read_file"], (
        "a person's own rule stays"
    )
    told = answer(*test)
    assert (told["decision"], told["decides"]) == ("ask", None)


def test_an_expiring_rule_says_until_when(home: Path) -> None:
    answer("rules", "add", "--require-approval", "--tool-name", "read_file", "--expires", "2h")
    assert " until 20" in run("rules", "list").stdout
    assert "(over)" not in run("rules", "list").stdout
    answer("rules", "add", "--require-approval", "--tool-name", "write_file", "--expires", "1s")
    time.sleep(1.1)
    assert "(over)" in run("rules", "list").stdout


def test_a_rule_about_a_tool_that_is_not_there_says_so(home: Path) -> None:
    said = run("rules", "add", "--require-approval", "--tool-name", "raed_file").stdout
    assert "there is no tool 'raed_file' here now" in said
    assert "there is no tool" not in run("rules", "add", "--require-approval", "--tool-name", "command_executor").stdout


async def test_a_yes_can_be_given_for_some_minutes_from_the_command_line(world: World) -> None:  # noqa: F811
    world.person.says = None
    async with world.running_daemon():
        asking = asyncio.create_task(world.execute("write_file", path="a.py", content="x"))
        async with asyncio.timeout(20):
            await world.person.was_asked.wait()
        (question,) = json.loads((await arun("approvals", "list", "--json")).stdout)["questions"]
        for wrong in (("--for", "5m"), ("--class", "--for", "soon"), ("--class", "--for", "9h")):
            assert (await arun("approvals", "approve", question["id"], *wrong)).returncode != 0
        assert (await arun("approvals", "approve", question["id"], "--class", "--for", "5m")).returncode == 0
        await asking
        (grant,) = json.loads((await arun("grants", "list", "--json")).stdout)["grants"]
    assert 0 < grant["expires_at"] - time.time() <= 300


async def test_recorded_calls_are_replayed_at_the_risk_they_had(world: World) -> None:  # noqa: F811
    from client_agent.local_api.rulebook import read_history

    async with world.running_daemon():
        await world.execute("write_file", path="./a.sh", content="x")
        await world.execute("execute_command", command="rm", args=["a.sh"])
        await world.execute("execute_command", command="git", args=["-c", "a.b=c", "log"])
    records = [(record.tool_name, subject) for record, subject in read_history(world.state, 10)]
    assert [(name, subject.text, subject.risk) for name, subject in records] == [
        ("execute_command", "git -c a.b=c log", Risk.HIGH),
        ("write_file", "a.sh", Risk.HIGH),
    ], "newest first, at the risk they had, and not what was refused"


async def test_history_grants_and_audit_are_told(world: World) -> None:  # noqa: F811
    (world.root / "a.txt").write_text("x")
    world.person.says = Answer(outcome=Outcome.APPROVED, scope=Scope.CLASS, by="person")
    async with world.running_daemon():
        read = await world.execute("read_file", path="a.txt")
        wrote = await world.execute("write_file", path="b.py", content="x = 1", password="hunter2")
        wrote = await world.execute("write_file", path="b.py", content="x = 1")
        assert read["status"] == wrote["status"] == "completed"
        grants = json.loads((await arun("grants", "list", "--json")).stdout)["grants"]
        assert [grant["covers"] for grant in grants] == ["write_file *.py"]
        assert "write_file *.py" in (await arun("grants", "list")).stdout
        assert (await arun("grants", "revoke", grants[0]["id"][:5])).returncode == 0
        assert (await arun("grants", "revoke", "all")).returncode == 2
        assert "nothing is granted" in (await arun("grants", "list")).stdout
    why = (await arun("why", wrote["tool_id"])).stdout
    for words in ("write_file", "b.py", "MEDIUM", "writes 'b.py'", "person", "COMPLETED"):
        assert words in why
    told = json.loads((await arun("why", read["tool_id"][:8], "--json")).stdout)["calls"][0]
    assert (told["verdict"], told["risk"]) == ("run", "LOW")
    assert (await arun("why", "zzz")).returncode == 2
    verified = await arun("audit", "verify")
    assert (verified.returncode, "unbroken" in verified.stdout) == (0, True)
    shown = (await arun("audit", "show")).stdout
    assert "[WRITE]" in shown
    assert "hunter2" not in shown
    simulated = json.loads((await arun("rules", "simulate", "--auto-approve", "--json")).stdout)["changed"]
    assert [row["after"] for row in simulated] == ["run"]
    path = world.state / "audit.jsonl"
    path.write_text(path.read_text().replace("b.py", "c.py", 1))
    broken = await arun("audit", "verify", "--json")
    assert broken.returncode == 1
    assert json.loads(broken.stdout)["ok"] is False
