"""Nothing is left running."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from benchmarks.processes import (
    cpu_times_s,
    cpu_used_s,
    environment,
    left_running,
    marked,
    python,
    resident_mib,
    running,
)

PARENT = (
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n"
    "subprocess.Popen([sys.executable, '-c', 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'])\n"
    "time.sleep(60)\n"
)


def test_a_process_ends_with_its_block_and_takes_its_children_along(tmp_path: Path) -> None:
    with running(python("-c", PARENT), log=tmp_path / "log") as process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        assert len(left_running()) == 2
        assert resident_mib(process.pid) > resident_mib(child.pid) > 0
    assert process.returncode is not None
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert left_running() == []


def test_a_process_that_will_not_end_is_ended(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    with running(python("-c", stubborn), log=tmp_path / "log", grace_s=0.2) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    assert process.returncode == -9


def test_a_process_is_found_by_the_mark_on_its_command_line(tmp_path: Path) -> None:
    mark = f"mark-{time.monotonic_ns()}"
    command = python("-c", "print('ready', flush=True); import time; time.sleep(60)", mark)
    with running(command, log=tmp_path / "log", env=environment()) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert marked(mark) == [process.pid]
    assert marked(mark) == []


def test_what_ends_between_two_looks_does_not_make_the_time_run_backwards(tmp_path: Path) -> None:
    command = python("-c", "sum(range(3_000_000)); print('ready', flush=True); import time; time.sleep(60)")
    with running(command, log=tmp_path / "log") as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = cpu_times_s(process.pid)
        assert sum(before.values()) > 0
        assert cpu_used_s({}, before) == sum(before.values())
    assert cpu_used_s(before, cpu_times_s(process.pid)) == 0
