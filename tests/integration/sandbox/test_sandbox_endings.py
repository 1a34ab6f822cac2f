"""However a command ends, all of it ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from client_agent.errors import Unavailable
from client_agent.sandbox import Access, Ending, Job, Stdin, namespaces
from tests.integration.sandbox.commands import (
    DEADLINE_S,
    FORKING,
    Listener,
    OpenSandbox,
    processes_marked,
    python_job,
    run_python,
    wait_until_gone,
)

HANG = "import time; time.sleep(120)"


@pytest.fixture
def mark() -> str:
    return f"mark-{uuid.uuid4().hex}"


async def test_an_exit_code_is_reported_as_such(open_here: OpenSandbox) -> None:
    outcome = await run_python(await open_here(), "raise SystemExit(7)")
    assert (outcome.ended_by, outcome.exit_code, outcome.signal) == (Ending.EXITED, 7, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT])
async def test_death_by_a_signal_is_reported_as_such(open_here: OpenSandbox, number: signal.Signals) -> None:
    outcome = await run_python(await open_here(), f"import os; os.kill(os.getpid(), {int(number)})")
    assert (outcome.ended_by, outcome.exit_code, outcome.signal) == (Ending.SIGNAL, None, number.name)


async def test_a_program_that_cannot_be_started_is_said_to_be(open_here: OpenSandbox, workspace: Path) -> None:
    (workspace / "garbage").write_bytes(b"\x7fELF garbage")
    (workspace / "garbage").chmod(0o755)
    sandbox = await open_here()
    for program in ("/usr/bin/no-such-program", str(workspace / "garbage"), str(workspace)):
        with pytest.raises(Unavailable, match="cannot be started"):
            await sandbox.run(Job(argv=(program,), access=Access.READ_ONLY))
    for argument in ("a\0b", "\udc80" * 2):
        with contextlib.suppress(Unavailable):
            await run_python(sandbox, "pass", argument)
    assert (await run_python(sandbox, "pass")).exit_code == 0


async def test_what_a_command_leaves_behind_ends_with_it(open_here: OpenSandbox, mark: str) -> None:
    outcome = await run_python(await open_here(), FORKING, mark)
    assert (outcome.ended_by, outcome.exit_code, outcome.stdout) == (Ending.EXITED, 0, "forked\n")
    assert processes_marked(mark) == []


async def test_a_timeout_ends_the_whole_tree(open_here: OpenSandbox, mark: str) -> None:
    outcome = await run_python(await open_here(), FORKING + HANG, mark, wall_s=0.5)
    assert (outcome.ended_by, outcome.exit_code) == (Ending.TIMEOUT, None)
    assert outcome.stdout == "forked\n"
    assert processes_marked(mark) == []


async def test_cancelling_ends_the_whole_tree(open_here: OpenSandbox, mark: str) -> None:
    sandbox, listener = await open_here(), Listener("forked")
    task = asyncio.create_task(sandbox.run(python_job(sandbox, FORKING + HANG, mark), listener))
    await listener.heard.wait()
    assert len(processes_marked(mark)) >= 4
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_marked(mark) == []


async def test_closing_the_sandbox_ends_everything(open_here: OpenSandbox, mark: str) -> None:
    sandbox, listener = await open_here(), Listener("forked")
    process = await sandbox.launch(python_job(sandbox, FORKING + HANG, mark), listener)
    await listener.heard.wait()
    await sandbox.close()
    assert processes_marked(mark) == []
    assert (await process.wait()).ended_by is Ending.STOPPED


async def test_nothing_outlives_a_daemon_that_is_killed(workspace: Path, mark: str) -> None:
    daemon_code = f"""
import asyncio, sys
from pathlib import Path
from client_agent.sandbox import Access, Job, open_sandbox
async def main():
    sandbox = await open_sandbox(Path({str(workspace)!r}), is_protected=lambda _: None)
    jobs = [Job(argv=(sandbox.find_program("python3"), "-c", {FORKING + HANG!r}, {mark!r}), access=access)
            for access in Access]
    await asyncio.gather(*(sandbox.run(job, lambda _, text: print(text, flush=True)) for job in jobs))
asyncio.run(main())
"""
    daemon = await asyncio.create_subprocess_exec(
        sys.executable, "-c", daemon_code, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    assert daemon.stdout is not None
    for _ in range(2):
        assert "forked" in (await daemon.stdout.readuntil(b"\n\n")).decode()
    assert len(processes_marked(mark)) >= 8
    daemon.kill()
    await daemon.wait()
    assert await wait_until_gone(mark) == []


async def test_a_launcher_that_dies_takes_its_commands_along_and_is_replaced(open_here: OpenSandbox, mark: str) -> None:
    sandbox, listener = await open_here(), Listener("forked")
    process = await sandbox.launch(python_job(sandbox, FORKING + HANG, mark), listener)
    await listener.heard.wait()
    backend = sandbox._backend
    for launcher in backend._launchers.values():  # type: ignore[attr-defined]
        launcher._process.kill()
    assert (await process.wait()).ended_by is Ending.STOPPED
    assert await wait_until_gone(mark) == []
    assert (await run_python(sandbox, "print('again')")).stdout == "again\n"


async def test_launchers_rest_after_a_while_without_work_and_not_before(
    open_here: OpenSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "IDLE_S", 0.05)
    before = {child.pid for child in psutil.Process().children()}
    sandbox = await open_here()
    assert (await run_python(sandbox, "pass", access=Access.WRITABLE)).exit_code == 0
    waits = await sandbox.launch(python_job(sandbox, "input(); print('woke')", stdin=Stdin.PIPE))
    await asyncio.sleep(0.5)
    assert {child.pid for child in psutil.Process().children()} > before
    await waits.write(b"\n")
    assert (await waits.wait()).stdout == "woke\n"
    async with asyncio.timeout(DEADLINE_S):
        while {child.pid for child in psutil.Process().children()} != before:
            await asyncio.sleep(0.02)
    assert (await run_python(sandbox, "pass")).exit_code == 0


async def test_a_process_in_the_background_can_be_written_to_looked_at_and_ended(open_here: OpenSandbox) -> None:
    sandbox, listener = await open_here(), Listener("HELLO")
    echo = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)\nprint('done')"
    process = await sandbox.launch(python_job(sandbox, echo, stdin=Stdin.PIPE), listener)
    await process.write(b"hello\n")
    await listener.heard.wait()
    assert process.is_running
    assert process.snapshot() == ("HELLO\n", "")
    process.close_stdin()
    outcome = await process.wait()
    assert (outcome.stdout, outcome.exit_code) == ("HELLO\ndone\n", 0)
    with pytest.raises(Unavailable):
        await process.write(b"more")


async def test_standard_input_is_empty(open_here: OpenSandbox) -> None:
    outcome = await run_python(await open_here(), "import sys; print(repr(sys.stdin.read()))")
    assert outcome.stdout == "''\n"


async def test_many_commands_run_at_the_same_time(open_here: OpenSandbox) -> None:
    sandbox = await open_here()
    outcomes = await asyncio.gather(*(run_python(sandbox, "import sys; print(sys.argv[1])", str(n)) for n in range(40)))
    assert [outcome.stdout for outcome in outcomes] == [f"{n}\n" for n in range(40)]
