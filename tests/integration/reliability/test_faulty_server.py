"""Every fault the reference server can have, against a real daemon: each call runs once, and its end is known."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from client_agent.errors import ConfigError
from client_agent.link import stream
from client_agent.link.status import LinkState
from client_agent.server.faults import (
    EVENT_KINDS,
    REQUEST_KINDS,
    RESTARTS,
    Dice,
    Fault,
    FaultKind,
    FaultPlan,
    everything,
    load_plan,
)
from tests.integration.reliability.conftest import Agent, Laptop, serving

SIGNAL = "tool.execution_signal"
PROGRAM = str(Path(sys.executable).parent / "client-agent")
RECOVERABLE = [
    Fault(kind=FaultKind.DROP, at=SIGNAL, times=2),
    Fault(kind=FaultKind.DELAY, at=SIGNAL, times=2, seconds=0.3),
    Fault(kind=FaultKind.DUPLICATE, at="tool.*"),
    Fault(kind=FaultKind.REORDER, at=SIGNAL, times=2),
    Fault(kind=FaultKind.REPLAY, at="tool.*"),
    Fault(kind=FaultKind.CUT, at=SIGNAL, times=2),
    Fault(kind=FaultKind.HALF_OPEN, at=SIGNAL, times=1),
    Fault(kind=FaultKind.SLOW, at=SIGNAL, times=2),
    Fault(kind=FaultKind.OVERSIZED, at=SIGNAL, times=1, bytes=3_000_000),
    Fault(kind=FaultKind.DROP, at="result", times=2),
    Fault(kind=FaultKind.DELAY, at="result", times=2),
    Fault(kind=FaultKind.LOSE_ANSWER, at="result", times=2),
    Fault(kind=FaultKind.LOSE_ANSWER, at="approve", times=2),
    Fault(kind=FaultKind.CODE, at="result", times=2, status=500),
    Fault(kind=FaultKind.CODE, at="approve", times=2, status=429, retry_after=1),
    Fault(kind=FaultKind.CODE, at="stream", after=1, times=1, status=503),
    Fault(kind=FaultKind.RESTART, at="result", times=2, seconds=0.3),
]


def name(fault: Fault) -> str:
    return f"{fault.kind}-{fault.at}-{fault.status}"


@pytest.mark.parametrize("fault", RECOVERABLE, ids=name)
async def test_after_a_fault_each_call_has_run_once_and_its_end_is_known(
    fault: Fault, tmp_path: Path, laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_EVENT_BYTES", 1_000_000)
    async with serving(tmp_path, fault) as url, laptop.running(url):
        agent = Agent(url)
        calls = [
            await agent.submit("write_file", path=f"{number}.md", content="ran\n", mode="append") for number in range(4)
        ]
        outcomes = await asyncio.gather(*(agent.outcome(call) for call in calls))
    assert [outcome["status"] for outcome in outcomes] == ["completed"] * 4
    assert [(laptop.root / f"{number}.md").read_text() for number in range(4)] == ["ran\n"] * 4
    assert len(laptop.person.asked) == 4


async def test_a_server_that_has_forgotten_everything_causes_no_second_execution(
    tmp_path: Path, laptop: Laptop
) -> None:
    restart = Fault(kind=FaultKind.RESTART_EMPTY, at="messages", times=1, seconds=0.2)
    async with serving(tmp_path, restart) as url, laptop.running(url) as daemon:
        agent = Agent(url)
        await agent.execute("write_file", path="before.md", content="ran\n", mode="append")
        before = daemon._ledger.last_event_id
        await agent.say("restart")
        async with asyncio.timeout(20):
            await daemon.connection.wait_until(lambda status: status.state is not LinkState.CONNECTED)
            await daemon.connection.wait_until(lambda status: status.state is LinkState.CONNECTED)
        after = await agent.execute("write_file", path="after.md", content="ran\n", mode="append")
        assert after["status"] == "completed"
        assert int(daemon._ledger.last_event_id) <= int(before) + 4, "the server did not begin anew"
    assert [(laptop.root / file).read_text() for file in ("before.md", "after.md")] == ["ran\n", "ran\n"]


async def test_a_result_that_is_refused_for_good_is_shown_and_the_next_goes_through(
    tmp_path: Path, laptop: Laptop
) -> None:
    refusal = Fault(kind=FaultKind.CODE, at="result", times=1, status=404)
    (laptop.root / "a.txt").write_text("x")
    async with serving(tmp_path, refusal) as url, laptop.running(url) as daemon:
        agent = Agent(url)
        lost = await agent.submit("read_file", path="a.txt")
        assert (await agent.execute("read_file", path="a.txt"))["status"] == "completed"
        async with asyncio.timeout(20):  # the other result is the agent's before the laptop hears that it is
            while [(post.target, post.state) for post in daemon._journal.reader.posts_not_delivered()] != [
                (lost, "dead")
            ]:
                await asyncio.sleep(0.02)


def rolls(plan: FaultPlan) -> list[FaultKind | None]:
    dice = Dice(plan)
    names = [SIGNAL, "tool.result_ack", "result", "approve", "stream"] * 200
    kinds = EVENT_KINDS | REQUEST_KINDS | RESTARTS
    return [fault.kind if (fault := dice.roll(each, kinds)) else None for each in names]


def test_the_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    assert rolls(everything(7)) == rolls(everything(7))
    assert rolls(everything(7)) != rolls(everything(8))
    assert {kind for kind in rolls(everything(7)) if kind} >= {FaultKind.CUT, FaultKind.DUPLICATE, FaultKind.CODE}


def test_a_fault_waits_and_stops_as_its_plan_says() -> None:
    dice = Dice(FaultPlan(faults=(Fault(kind=FaultKind.CUT, at="tool.*", after=2, times=1),)))
    struck = [dice.roll(each, EVENT_KINDS) is not None for each in ("tool.a", "chat.b", "tool.a", "tool.a", "tool.a")]
    assert struck == [False, False, False, True, False]


def test_a_plan_is_read_from_toml_and_json(tmp_path: Path) -> None:
    toml, other = tmp_path / "plan.toml", tmp_path / "plan.json"
    toml.write_text('seed = 3\n[[faults]]\nkind = "cut"\nat = "tool.*"\nchance = 0.5\n')
    other.write_text(json.dumps({"seed": 3, "faults": [{"kind": "cut", "at": "tool.*", "chance": 0.5}]}))
    assert load_plan(str(toml)) == load_plan(str(other))
    assert load_plan("42") == everything(42)


@pytest.mark.parametrize("text", ['[[faults]]\nkind = "explode"', "faults = 1", "[[faults]]\nkind = 'cut'\nchance = 2"])
def test_a_plan_that_cannot_be_one_is_said_with_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"plan\.toml"):
        load_plan(str(path))


def test_the_command_takes_a_plan(tmp_path: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "server", "--port", "0", "--faults", str(tmp_path / "missing.toml")],
        env={"CLIENT_AGENT_STATE_DIR": str(tmp_path / "state"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "missing.toml" in done.stderr
