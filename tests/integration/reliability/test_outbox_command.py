"""`client-agent outbox`: shown at any time, changed while no daemon owns it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from client_agent.journal.journal import Journal
from client_agent.journal.records import PostKind, PostState
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState
from client_agent.server.faults import Fault, FaultKind
from tests.integration.reliability.conftest import Agent, Laptop, serving

PROGRAM = str(Path(sys.executable).parent / "client-agent")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def outbox(state: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "CLIENT_AGENT_STATE_DIR": str(state), "CLIENT_AGENT_CONFIG": str(state / "none.toml")}
    return subprocess.run([PROGRAM, "outbox", *args], env=env, capture_output=True, text=True, timeout=60, check=False)


async def fill(state: Path, *waiting: str) -> None:
    """Results that wait, and one the server will never take."""
    with closing(Journal(state)) as journal:
        ledger = journal.recover("w").ledger
        for tool_id in (*(waiting or ["waiting-1"]), "dead-1"):
            ledger.admit(Call(tool_id=tool_id, tool_name="write_file", tool_params={}), effects=True)
            await ledger.finish(tool_id, CallState.FAILED, b'{"status":"failed"}')
        ledger.outbox.mark_dead(PostKind.RESULT, "dead-1", "the server answered 404: \x1b[31mgone")


def read(state: Path) -> dict[str, PostState]:
    with closing(Journal(state)) as journal:
        return {post.target: post.state for post in journal.reader.posts_not_delivered()}


async def test_it_lists_what_waits_and_what_is_dead_with_the_reason(state: Path) -> None:
    await fill(state)
    listed = outbox(state, "list").stdout
    assert "waiting-1  result  waiting  w" in listed
    assert outbox(state).stdout == listed
    assert "the server answered 404" in listed
    assert "\x1b" not in listed
    posts = json.loads(outbox(state, "list", "--json").stdout)["posts"]
    assert {post["target"]: post["state"] for post in posts} == {"waiting-1": "waiting", "dead-1": "dead"}


async def test_a_dead_letter_is_taken_up_again(state: Path) -> None:
    await fill(state)
    assert outbox(state, "retry", "dead").returncode == 0
    assert read(state) == {"waiting-1": PostState.WAITING, "dead-1": PostState.WAITING}


async def test_what_is_dropped_is_gone(state: Path) -> None:
    await fill(state)
    assert outbox(state, "drop", "waiting-1").returncode == 0
    assert read(state) == {"dead-1": PostState.DEAD}
    assert outbox(state, "drop", "all").returncode == 0
    assert read(state) == {}
    assert "nothing waits" in outbox(state, "list").stdout


async def test_a_name_that_means_several_or_none_drops_nothing(state: Path) -> None:
    await fill(state, "a", "a-1", "a-2")
    for name, why in (("a-", "several"), ("", "nothing")):
        done = outbox(state, "drop", name)
        assert (done.returncode, done.stderr.startswith(f"client-agent: {why} in the outbox")) == (1, True), done.stderr
    assert read(state).keys() == {"a", "a-1", "a-2", "dead-1"}
    assert outbox(state, "drop", "a").returncode == 0
    assert read(state).keys() == {"a-1", "a-2", "dead-1"}


async def test_a_name_that_is_not_there_is_said(state: Path) -> None:
    await fill(state)
    done = outbox(state, "retry", "no-such")
    assert done.returncode == 1
    assert "outbox list" in done.stderr


async def test_while_a_daemon_owns_the_journal_it_is_shown_but_not_changed(state: Path) -> None:
    await fill(state)
    with closing(Journal(state)):
        assert "waiting-1" in outbox(state, "list").stdout
        done = outbox(state, "drop", "all")
    assert done.returncode == 5
    assert "already running" in done.stderr
    assert len(read(state)) == 2


def test_without_a_journal_none_is_made(state: Path) -> None:
    done = outbox(state, "drop", "all")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert not (state / "journal.sqlite3").exists()


async def test_while_a_daemon_runs_it_does_what_is_asked(tmp_path: Path, laptop: Laptop) -> None:
    refusal = Fault(kind=FaultKind.CODE, at="result", times=1, status=404)
    (laptop.root / "a.txt").write_text("x")
    async with serving(tmp_path, refusal) as url, laptop.running(url) as daemon:
        agent = Agent(url)
        call = await agent.submit("read_file", path="a.txt")
        async with asyncio.timeout(20):
            while not daemon._journal.reader.posts_not_delivered() or len(daemon._ledger.outbox):
                await asyncio.sleep(0.02)
        done = await asyncio.to_thread(outbox, laptop.state, "retry", call)
        assert (done.returncode, done.stdout) == (0, "to be sent again: 1\n"), done.stderr
        assert (await agent.outcome(call))["status"] == "completed"
