"""Commands of a remote agent: confined, bounded, and gone when they should be."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from client_agent.approvals.questions import Answer, Outcome
from client_agent.local_api.client import connecting
from tests.integration.daemon.conftest import World


async def command(world: World, program: str, *args: str, **more: Any) -> dict[str, Any]:
    return await world.execute("execute_command", command=program, args=list(args), **more)


def alive(mark: str) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE
        and any(mark in part for part in process.info["cmdline"] or [])
    ]


async def test_a_look_up_runs_unasked_and_tells_all_the_contract_says(world: World) -> None:
    (world.root / "a.txt").write_text("one\ntwo\n")
    async with world.running_daemon():
        response = await command(world, "grep", "-n", "two", "a.txt")
    assert response["status"] == "completed"
    result = response["result"]
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("2:two\n", "", 0)
    assert result["execution_time"] > 0
    assert world.person.asked == []


async def test_an_exit_code_other_than_zero_is_a_result(world: World) -> None:
    (world.root / "a.txt").write_text("one\n")
    async with world.running_daemon():
        response = await command(world, "grep", "two", "a.txt")
    assert (response["status"], response["result"]["exit_code"]) == ("completed", 1)


async def test_an_approved_command_writes_inside_and_reads_nothing_outside(world: World) -> None:
    outside = world.root.parent / "outside.txt"
    outside.write_text("canary-outside")
    (world.root / ".env").write_text("canary-env")
    code = (
        "import os, json\n"
        "open('made.txt', 'w').write('x')\n"
        "seen = {}\n"
        f"for path in ({str(outside)!r}, '.env', '/etc/shadow', {str(world.state / 'journal.sqlite3')!r}):\n"
        "    try: seen[path] = open(path, 'rb').read().decode('latin-1')\n"
        "    except OSError as error: seen[path] = error.strerror\n"
        f"try: open({str(outside)!r}, 'w')\n"
        "except OSError: pass\n"
        "print(json.dumps([seen, dict(os.environ)]))\n"
    )
    async with world.running_daemon():
        response = await command(world, "python3", "-c", code)
    assert response["status"] == "completed", response
    seen, environment = json.loads(response["result"]["stdout"])
    assert (world.root / "made.txt").read_text() == "x"
    assert "canary" not in str(seen)
    assert outside.read_text() == "canary-outside"
    assert "CLIENT_AGENT_TOKEN" not in environment
    assert len(world.person.asked) == 1


async def test_output_over_the_cap_keeps_head_and_tail(world: World) -> None:
    async with world.running_daemon(output_max_bytes=10_000):
        response = await command(world, "python3", "-c", "print('head' + 'x' * 1_000_000 + 'tail')")
    result = response["result"]
    assert result["truncated"] is True
    assert len(result["stdout"]) < 11_000
    assert result["stdout"].startswith("head")
    assert result["stdout"].rstrip().endswith("tail")


async def test_a_command_over_its_time_is_ended_with_all_it_started(world: World) -> None:
    mark = f"mark-{os.getpid()}-timeout"
    child = f"import time; time.sleep(60)  # {mark}"
    code = (
        f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
    )
    code += f"time.sleep(60)  # {mark}"
    async with world.running_daemon():
        response = await command(world, "python3", "-c", code, timeout=1)
        assert response["status"] == "failed"
        assert "ran longer than 1" in response["error"]
        assert alive(mark) == []


async def test_a_cancelled_command_is_ended_with_all_it_started(world: World) -> None:
    mark = f"mark-{os.getpid()}-cancel"
    async with world.running_daemon():
        running = asyncio.create_task(command(world, "python3", "-c", f"import time;time.sleep(60)#{mark}"))
        async with asyncio.timeout(30):
            while not alive(mark):
                await asyncio.sleep(0.02)
            tool_id = world.person.asked[0].call.tool_id
            await world.agent.post(f"/my/projects/project-1/tools/{tool_id}/cancel", json={"reason": "enough"})
            while alive(mark):
                await asyncio.sleep(0.02)
            assert (await running)["status"] == "failed"


async def test_a_stopped_daemon_leaves_no_command_running_and_its_result_is_known(world: World) -> None:
    mark = f"mark-{os.getpid()}-stop"
    async with world.running_daemon():
        running = asyncio.create_task(command(world, "python3", "-c", f"import time;time.sleep(60)#{mark}"))
        async with asyncio.timeout(30):
            while not alive(mark):
                await asyncio.sleep(0.02)
    assert alive(mark) == []
    async with world.running_daemon(), asyncio.timeout(30):
        response = await running
    assert response["status"] == "failed"
    assert "the daemon was stopped" in response["error"]
    assert len(world.person.asked) == 1, "it is not run again"


async def test_a_rejected_command_is_never_started(world: World) -> None:
    world.person.says = Answer(outcome=Outcome.REJECTED, by="person")
    async with world.running_daemon():
        response = await command(world, "python3", "-c", "open('made.txt','w')")
    assert response["status"] == "rejected"
    assert not (world.root / "made.txt").exists()


@pytest.mark.parametrize("program", ["rm", "sh", "/bin/ls", "../x", "sudo"])
async def test_what_may_never_run_is_refused(world: World, program: str) -> None:
    async with world.running_daemon():
        assert (await command(world, program, "x"))["status"] == "failed"
    assert world.person.asked == []


async def test_a_low_command_sees_the_workspace_read_only(world: World, tmp_path: Path) -> None:
    """Judged wrongly, it could still change nothing: the mechanism is asked directly."""
    from client_agent.sandbox import Access, Job, open_sandbox

    sandbox = await open_sandbox(world.root, is_protected=lambda _: None, search_path=os.defpath)
    try:
        touch = sandbox.find_program("touch")
        assert touch is not None
        outcome = await sandbox.run(Job(argv=(touch, "made.txt"), access=Access.READ_ONLY))
    finally:
        await sandbox.close()
    assert outcome.exit_code != 0
    assert not (world.root / "made.txt").exists()


async def test_what_a_command_writes_is_heard_at_the_door_while_it_runs(world: World) -> None:
    """The command waits for a file that is made only once its first line was heard."""
    code = (
        "import os, time\nprint('ready', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint('gone')"
    )

    def watch() -> str:
        with connecting(world.state) as daemon:
            daemon.request("watch")
            watching.set()
            while True:
                message = daemon.receive()
                if message.get("event") == "output":
                    return "".join(row["text"] for row in message["data"])

    watching = threading.Event()
    async with world.running_daemon(), asyncio.timeout(60):
        heard = asyncio.create_task(asyncio.to_thread(watch))
        await asyncio.to_thread(watching.wait, 30)
        running = asyncio.create_task(command(world, "python3", "-c", code))
        assert await heard == "ready\n"
        (world.root / "go").touch()
        assert (await running)["result"]["stdout"] == "ready\ngone\n"
