"""Every limit holds, and the one that was hit is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from client_agent.errors import InvalidParameters
from client_agent.sandbox import Access, Ending
from tests.integration.sandbox.commands import Listener, OpenSandbox, python_job, run_python

MEBIBYTE = 1 << 20


async def test_one_process_cannot_take_more_memory_than_allowed(open_here: OpenSandbox) -> None:
    sandbox = await open_here(limits={"memory_bytes": 200 * MEBIBYTE})
    outcome = await run_python(sandbox, "x = bytearray(300 << 20)")
    assert outcome.exit_code == 1
    assert "MemoryError" in outcome.stderr


async def test_many_processes_together_cannot_take_more_memory_than_allowed(open_here: OpenSandbox) -> None:
    sandbox = await open_here(limits={"memory_bytes": 200 * MEBIBYTE})
    code = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        keep = bytearray(90 << 20)
        time.sleep(60)
time.sleep(60)
"""
    outcome = await run_python(sandbox, code)
    assert outcome.ended_by is Ending.MEMORY


async def test_memory_shared_by_processes_is_counted_once(open_here: OpenSandbox) -> None:
    sandbox = await open_here(limits={"memory_bytes": 200 * MEBIBYTE})
    code = """
import os, time
keep = bytearray(60 << 20)
children = [pid for pid in (os.fork() for _ in range(5))]
if all(children):
    for pid in children: os.waitpid(pid, 0)
else:
    time.sleep(0.5); os._exit(0)
"""
    assert (await run_python(sandbox, code)).ended_by is Ending.EXITED


async def test_a_fork_bomb_is_ended(open_here: OpenSandbox) -> None:
    sandbox = await open_here(limits={"processes": 30})
    code = """
import os, time
while True:
    try: os.fork()
    except OSError: time.sleep(0.01)
"""
    outcome = await run_python(sandbox, code)
    assert outcome.ended_by is Ending.PROCESSES


async def test_processor_time_is_limited(open_here: OpenSandbox) -> None:
    outcome = await run_python(await open_here(limits={"cpu_s": 1}), "while True: pass")
    assert (outcome.ended_by, outcome.signal) == (Ending.CPU, "SIGXCPU")


async def test_a_file_cannot_grow_beyond_the_limit(open_here: OpenSandbox, workspace: Path) -> None:
    sandbox = await open_here(limits={"file_bytes": MEBIBYTE})
    shell = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nopen('big', 'wb').write(b'x' * (2 << 20))"
    outcome = await run_python(sandbox, shell, access=Access.WRITABLE)
    assert (outcome.ended_by, outcome.signal) == (Ending.FILE_SIZE, "SIGXFSZ")
    assert (workspace / "big").stat().st_size <= MEBIBYTE


async def test_open_files_are_limited(open_here: OpenSandbox) -> None:
    sandbox = await open_here(limits={"open_files": 20})
    outcome = await run_python(sandbox, "keep = [open('/dev/null') for _ in range(40)]")
    assert "Too many open files" in outcome.stderr


async def test_tmp_is_limited(open_here: OpenSandbox) -> None:
    sandbox = await open_here(limits={"tmp_bytes": MEBIBYTE})
    outcome = await run_python(sandbox, "open('/tmp/big', 'wb').write(b'x' * (2 << 20))")
    assert "No space left" in outcome.stderr


async def test_limits_cannot_be_raised_from_inside(open_here: OpenSandbox) -> None:
    sandbox = await open_here(limits={"file_bytes": MEBIBYTE, "open_files": 20, "memory_bytes": 500 * MEBIBYTE})
    code = """
import resource
for name in ("RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_DATA", "RLIMIT_NPROC", "RLIMIT_CPU", "RLIMIT_CORE"):
    number = getattr(resource, name)
    hard = resource.getrlimit(number)[1]
    try: resource.setrlimit(number, (hard, resource.RLIM_INFINITY if hard < 0 else hard + 1)); print(name, "raised")
    except (ValueError, OSError): print(name, hard)
"""
    lines = (await run_python(sandbox, code)).stdout.splitlines()
    assert "RLIMIT_FSIZE 1048576" in lines
    assert "RLIMIT_NOFILE 20" in lines
    assert not any("raised" in line for line in lines)


async def test_output_beyond_the_limit_keeps_beginning_and_end(open_here: OpenSandbox) -> None:
    sandbox = await open_here()
    outcome = await run_python(sandbox, "print('begin'); print('x' * 3_000_000); print('end')")
    assert outcome.truncated
    assert outcome.stdout.startswith("begin\nxxx")
    assert outcome.stdout.endswith("xxx\nend\n")
    assert len(outcome.stdout.encode()) <= 1_000_000
    left_out = re.search(r"\[\.\.\. (\d+) bytes left out \.\.\.\]", outcome.stdout)
    assert left_out is not None
    kept = outcome.stdout.replace(f"\n{left_out.group(0)}\n", "")
    assert len(kept) + int(left_out.group(1)) == 3_000_000 + len("begin\n\nend\n")


async def test_both_streams_together_keep_the_limit_whatever_they_hold(open_here: OpenSandbox) -> None:
    sandbox = await open_here()
    code = r"open(1, 'wb').write(b'\xff\xfe' * 400_000); open(2, 'wb').write('€'.encode() * 400_000)"
    outcome = await run_python(sandbox, code)
    assert len(outcome.stdout.encode()) + len(outcome.stderr.encode()) <= 1_000_000
    assert outcome.truncated
    assert "\N{REPLACEMENT CHARACTER}" not in outcome.stderr


async def test_output_without_end_is_ended(open_here: OpenSandbox) -> None:
    sandbox = await open_here(limits={"output_total_bytes": 20_000_000})
    outcome = await run_python(sandbox, "while True: print('x' * 10_000)")
    assert outcome.ended_by is Ending.OUTPUT


async def test_what_does_not_fit_is_spooled_up_to_its_own_limit(open_here: OpenSandbox, tmp_path: Path) -> None:
    sandbox = await open_here(limits={"output_bytes": 1000, "spool_bytes": 5000})
    outcome = await run_python(sandbox, "print('x' * 3000); print('y' * 9000)", spool=tmp_path / "call")
    (spooled,) = outcome.spooled
    assert spooled.read_text() == ("x" * 3000 + "\n" + "y" * 9000)[:5000]
    assert spooled.stat().st_mode & 0o777 == 0o600
    small = await run_python(sandbox, "print('fits')", spool=tmp_path / "other")
    assert small.spooled == ()
    assert not list(tmp_path.glob("other*"))


async def test_output_is_passed_on_as_it_comes(open_here: OpenSandbox) -> None:
    sandbox, listener = await open_here(), Listener("second")
    code = "import sys; print('first', flush=True); print('second', file=sys.stderr)"
    await sandbox.run(python_job(sandbox, code), listener)
    assert sorted(listener.said) == [("stderr", "second\n"), ("stdout", "first\n")]


async def test_a_listener_that_fails_does_not_fail_the_command(open_here: OpenSandbox) -> None:
    def fail(stream: str, text: str) -> None:
        raise RuntimeError(stream + text)

    sandbox = await open_here()
    assert (await sandbox.run(python_job(sandbox, "print('all the same')"), fail)).stdout == "all the same\n"


async def test_a_command_line_too_long_to_be_passed_is_refused(open_here: OpenSandbox) -> None:
    sandbox = await open_here()
    with pytest.raises(InvalidParameters):
        await run_python(sandbox, "pass", "x" * 200_000)
    assert (await run_python(sandbox, "import sys; print(len(sys.argv[1]))", "x" * 100_000)).stdout == "100000\n"
