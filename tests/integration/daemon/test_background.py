"""Commands that go on in the background: whose they are, what may be done with them, and that they end."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from client_agent.approvals.questions import Answer, Outcome
from client_agent.local_api.client import connecting
from client_agent.policy.decision import Risk
from tests.integration.daemon.conftest import World
from tests.integration.daemon.test_commands import alive

ECHO = "import sys\nfor line in sys.stdin: print('heard', line, end='', flush=True)\nprint('done', flush=True)"


async def start(world: World, program: str, *args: str, session: str = "s1") -> str:
    """The handle of a command that was started."""
    response = await world.execute("execute_command", session, command=program, args=list(args), background=True)
    assert response["status"] == "completed", response
    assert response["result"]["running"] is True
    handle: str = response["result"]["process_id"]
    return handle


async def output_when(world: World, handle: str, word: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            result: dict[str, Any] = (await world.execute("process_output", process_id=handle))["result"]
            if word in result["stdout"] or not result["running"]:
                return result
            await asyncio.sleep(0.02)


async def test_a_command_in_the_background_is_answered_at_once_typed_into_and_read(world: World) -> None:
    async with world.running_daemon():
        handle = await start(world, "python3", "-c", ECHO)
        await world.execute("process_input", process_id=handle, text="one\n")
        assert (await output_when(world, handle, "one"))["running"] is True
        closed = await world.execute("process_input", process_id=handle, text="two\n", close=True)
        assert closed["result"] == {"success": True, "process_id": handle, "written": 4, "closed": True}
        ended = await output_when(world, handle, "done")
        while ended["running"]:
            ended = await output_when(world, handle, "nothing more")
    assert ended["stdout"] == "heard one\nheard two\ndone\n"
    assert (ended["exit_code"], ended["ended_by"]) == (0, "exited")


async def test_typing_is_asked_about_with_the_command_it_goes_to(world: World) -> None:
    """A yes to a command is no yes to what is typed into it later; one may be given for the process."""
    async with world.running_daemon():
        handle = await start(world, "python3", "-i")
        await world.execute("process_input", process_id=handle, text="1\n")
        started, typed = world.person.asked
        assert "goes on in the background" in " ".join(reason.text for reason in started.decision.reasons)
        assert typed.decision.risk is Risk.HIGH
        assert "'python3 -i'" in typed.decision.reasons[0].text
        world.person.says = Answer(outcome=Outcome.REJECTED, by="person")
        refused = await world.execute("process_input", process_id=handle, text="open('made.txt', 'w')\n")
    assert refused["status"] == "rejected"
    assert not (world.root / "made.txt").exists()


async def test_typing_into_what_can_change_nothing_is_not_asked_about(world: World) -> None:
    async with world.running_daemon():
        handle = await start(world, "grep", "--line-buffered", "b")
        response = await world.execute("process_input", process_id=handle, text="a\nb\n", close=True)
        assert response["status"] == "completed", response
        assert (await output_when(world, handle, "b"))["stdout"] == "b\n"


async def test_a_process_is_ended_with_all_it_started(world: World) -> None:
    mark = f"mark-{os.getpid()}-background"
    child = f"import time; time.sleep(60)  # {mark}"
    code = (
        f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
    )
    code += f"print('started', flush=True)\ntime.sleep(60)  # {mark}"
    async with world.running_daemon():
        handle = await start(world, "python3", "-c", code)
        await output_when(world, handle, "started")
        assert len(alive(mark)) == 2
        result = (await world.execute("process_kill", process_id=handle))["result"]
        assert alive(mark) == []
        assert (result["running"], result["ended_by"], result["stdout"]) == (False, "cancelled", "started\n")
        again = (await world.execute("process_kill", process_id=handle))["result"]
        assert again["ended_by"] == "cancelled"
        late = await world.execute("process_input", process_id=handle, text="x")
        assert "takes no input" in late["error"]
    assert len(world.person.asked) == 2, "to end it needs nobody's leave"


@pytest.mark.parametrize("tool", ["process_output", "process_input", "process_kill"])
async def test_another_session_cannot_touch_a_process(world: World, tool: str) -> None:
    async with world.running_daemon():
        handle = await start(world, "grep", "x", session="s1")
        other = await world.execute(tool, "s2", process_id=handle)
        never = await world.execute(tool, "s2", process_id="never-was")
        assert other["status"] != "completed"
        assert other["error"] == never["error"], "it is not even told that there is one"
        assert (await world.execute("process_output", "s1", process_id=handle))["result"]["running"] is True


async def test_a_process_ends_when_its_time_is_over(world: World) -> None:
    async with world.running_daemon(background_max_s=1):
        result = await output_when(world, await start(world, "grep", "x"), "never")
    assert (result["ended_by"], result["exit_code"]) == ("timeout", None)


async def test_only_so_many_run_at_once(world: World) -> None:
    async with world.running_daemon(background_max=2):
        handles = [await start(world, "grep", "x") for _ in range(2)]
        third = await world.execute("execute_command", command="grep", args=["x"], background=True)
        assert third["status"] == "failed"
        assert "in the background already" in third["error"]
        await world.execute("process_kill", process_id=handles[0])
        await start(world, "grep", "x")


async def test_a_stopped_daemon_ends_them_and_the_next_one_does_not_start_them_again(world: World) -> None:
    mark = f"mark-{os.getpid()}-stop-background"
    async with world.running_daemon(), asyncio.timeout(60):
        handle = await start(world, "grep", mark)
        while len(alive(mark)) != 1:  # it is answered when it has been handed over, perhaps before it runs
            await asyncio.sleep(0.02)
    assert alive(mark) == []
    async with world.running_daemon():
        gone = await world.execute("process_output", process_id=handle)
        assert "or with the daemon" in gone["error"]
        assert alive(mark) == []


async def test_a_cancelled_start_ends_its_process(world: World) -> None:
    async with world.running_daemon() as daemon:
        handle = await start(world, "grep", "x")
        daemon.workspaces["w"]._dispatcher.cancel(handle, "enough")
        assert (await output_when(world, handle, "never"))["ended_by"] == "cancelled"


async def test_a_session_that_the_user_has_stopped_listening_to_keeps_nothing_running(world: World) -> None:
    mark = f"mark-{os.getpid()}-paused"
    async with world.running_daemon(), asyncio.timeout(60):
        await start(world, "grep", mark)
        other = await start(world, "grep", "x", session="s2")
        code = f"import time; time.sleep(60)  # {mark}"
        waited_for = asyncio.create_task(world.execute("execute_command", command="python3", args=["-c", code]))
        while len(alive(mark)) < 2:
            await asyncio.sleep(0.02)
        world.person.says = Answer(outcome=Outcome.REJECTED, by="person")
        for _ in range(3):
            await world.execute("write_file", path="a.md", content="x")
        assert "paused by the user" in (await waited_for)["error"]
        while alive(mark):
            await asyncio.sleep(0.02)
        assert (await world.execute("process_output", "s2", process_id=other))["result"]["running"] is True


async def test_the_door_lists_them_and_ends_one(world: World) -> None:
    def ask(op: str, **args: Any) -> Any:
        with connecting(world.state) as daemon:
            return daemon.request(op, **args)

    async with world.running_daemon():
        handle = await start(world, "grep", "--", "password=hunter2")
        (row,) = (await asyncio.to_thread(ask, "processes.list"))["processes"]
        assert (row["process_id"], row["workspace"], row["session"], row["running"]) == (handle, "w", "s1", True)
        assert row["command"].startswith("grep")
        assert "hunter2" not in row["command"]
        assert row["ends_at"] - row["started_at"] == 3600
        assert (await asyncio.to_thread(ask, "status"))["workspaces"]["w"]["processes"] == 1
        await asyncio.to_thread(ask, "processes.end", id=handle[:8])
        assert (await output_when(world, handle, "never"))["ended_by"] == "cancelled"
        (row,) = (await asyncio.to_thread(ask, "processes.list"))["processes"]
        assert (row["running"], row["ended_by"]) == (False, "cancelled")
