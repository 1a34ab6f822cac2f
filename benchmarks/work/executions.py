"""Running commands: confined and raw, one by one and together, much output, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from benchmarks.figures import Effort, Reading
from benchmarks.processes import marked
from benchmarks.stage import FLOOR, OURS, BenchmarkFailed, Stage, Work
from benchmarks.timing import Batch, Comparison, summarize, take_turns
from benchmarks.work.reads import by_latency, compare
from benchmarks.work.writes import allow
from client_agent.policy.paths import Protection
from client_agent.sandbox import Access, Job, Sandbox, open_sandbox

GIB = 1 << 30
CAP_BYTES = 1_000_000
_PART_BYTES = 1 << 24
_PIPE = asyncio.subprocess.PIPE
_Run = Callable[[], Awaitable[None]]

# What bubblewrap needs to be told for about the same confinement, without Landlock, seccomp and limits.
_BUBBLEWRAP = shlex.split(
    "--unshare-all --die-with-parent --new-session --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib "
    "--symlink usr/lib64 /lib64 --ro-bind /etc/ld.so.cache /etc/ld.so.cache --proc /proc --dev /dev --tmpfs /tmp"
)

# A child, a grandchild and one in a session of its own, all deaf to what can be ignored.
_FORKING = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
def sleep(): time.sleep(300); os._exit(0)
for _ in range(8):
    if os.fork() == 0: sleep()
    parent = os.fork()
    if parent == 0:
        os.setsid()
        if os.fork() == 0: sleep()
        os._exit(0)
    os.waitpid(parent, 0)
print("forked", flush=True)
time.sleep(300)
"""


@contextlib.asynccontextmanager
async def sandboxed(stage: Stage) -> AsyncIterator[Sandbox]:
    """The program's own sandbox, in this process, with the full mechanism or not at all."""
    sandbox = await open_sandbox(Path(stage.files.root), is_protected=Protection().find)
    try:
        if sandbox.mechanism.name != "namespaces" or sandbox.mechanism.gaps:
            raise BenchmarkFailed(f"commands are not fully confined here: {sandbox.mechanism}")
        yield sandbox
    finally:
        await sandbox.close()


async def _spawn(*argv: str) -> None:
    """As one would without us: asyncio, output piped and read."""
    process = await asyncio.create_subprocess_exec(*argv, stdin=asyncio.subprocess.DEVNULL, stdout=_PIPE, stderr=_PIPE)
    await process.communicate()
    if process.returncode:
        raise BenchmarkFailed(f"{argv[0]} ended with {process.returncode}")


def _confined(sandbox: Sandbox) -> _Run:
    true = sandbox.find_program("true")
    assert true is not None
    job = Job(argv=(true,), access=Access.WRITABLE)

    async def run() -> None:
        outcome = await sandbox.run(job)
        if outcome.exit_code != 0:
            raise BenchmarkFailed(f"true ended with {outcome}")

    return run


def _raw() -> _Run:
    true = shutil.which("true") or "/bin/true"
    return lambda: _spawn(true)


async def _one_by_one(run: _Run, count: int) -> Batch:
    latencies_s = []
    began = time.perf_counter()
    for _ in range(count):
        start = time.perf_counter()
        await run()
        latencies_s.append(time.perf_counter() - start)
    return Batch(latencies_s=latencies_s, wall_s=time.perf_counter() - began)


async def _together(run: _Run, count: int, in_flight: int) -> Batch:
    slots = asyncio.Semaphore(in_flight)

    async def one() -> float:
        async with slots:
            start = time.perf_counter()
            await run()
            return time.perf_counter() - start

    began = time.perf_counter()
    latencies_s = await asyncio.gather(*(one() for _ in range(count)))
    return Batch(latencies_s=latencies_s, wall_s=time.perf_counter() - began)


async def _turn_about(runs: dict[str, Callable[[], Awaitable[Batch]]], effort: Effort) -> Comparison:
    return await take_turns(runs, repeats=effort.repeats, budget_s=effort.budget_s)


async def spawned(stage: Stage, effort: Effort) -> Reading:
    """`true`, against the same spawn by asyncio; bubblewrap beside it where it is installed."""
    async with sandboxed(stage) as sandbox:
        runs = {FLOOR: _raw(), OURS: _confined(sandbox)}
        if bubblewrap := shutil.which("bwrap"):
            runs["bubblewrap"] = lambda: _spawn(bubblewrap, *_BUBBLEWRAP, "true")
        count = effort.times(100)
        comparison = await _turn_about({name: _batch(run, count) for name, run in runs.items()}, effort)
    note = "bubblewrap: not installed"
    if bubblewrap:
        note = f"bubblewrap {comparison.latencies_ms('bubblewrap').p50:.2f} ms"
    return by_latency(comparison, note)


def _batch(run: _Run, count: int) -> Callable[[], Awaitable[Batch]]:
    return lambda: _one_by_one(run, count)


async def end_to_end(stage: Stage, effort: Effort) -> Reading:
    """The smallest command that is on the whitelist, through stream, policy, journal, sandbox and delivery."""
    work = Work(tool_name="execute_command", tool_params={"command": "pwd"})
    reading = by_latency(await compare(stage, work, effort, count=effort.times(100)))
    ours = await stage.ours()
    if '"exit_code":0' not in ours.last_result:
        raise BenchmarkFailed(f"pwd did not run: {ours.last_result}")
    return reading


async def end_to_end_writing(stage: Stage, effort: Effort) -> Reading:
    """One that could change something: its start and its result are on the disk before the next step is taken."""
    work = Work(tool_name="execute_command", tool_params={"command": "git", "args": ["--version"]})
    count, floor = effort.times(60), await stage.floor()
    allow(stage.state_dir("commands"), "execute_command")
    async with stage.start_ours("commands") as ours:
        runs = {FLOOR: lambda: floor.do(work, count), OURS: lambda: ours.do(work, count)}
        reading = by_latency(await _turn_about(runs, effort))
        if "git version" not in ours.last_result:
            raise BenchmarkFailed(f"git did not run: {ours.last_result}")
    return reading


async def together(stage: Stage, effort: Effort) -> Reading:
    """200 of `true`, 8 at a time."""
    async with sandboxed(stage) as sandbox:
        raw, confined = _raw(), _confined(sandbox)
        runs = {FLOOR: lambda: _together(raw, 200, 8), OURS: lambda: _together(confined, 200, 8)}
        comparison = await _turn_about(runs, effort)
    return Reading(
        ours=summarize([1e3 * batch.wall_s for batch in comparison.batches[OURS]]),
        floor=summarize([1e3 * batch.wall_s for batch in comparison.batches[FLOOR]]),
        ratio=comparison.ratios(OURS, FLOOR, lambda batch: batch.wall_s),
    )


async def much_output(stage: Stage, effort: Effort) -> Reading:
    """1 GiB written by a command, through the whole program, against reading it from a pipe and dropping it."""
    work = _writing_much(stage)
    ours = await stage.ours()
    runs = {FLOOR: lambda: _drain(stage), OURS: lambda: ours.do(work, 1)}
    comparison = await take_turns(runs, repeats=min(effort.repeats, 5), budget_s=60)
    if not 0.9 * CAP_BYTES < ours.result_bytes < 1.2 * CAP_BYTES:
        raise BenchmarkFailed(f"a result of {ours.result_bytes} bytes is not what fits of 1 GiB")
    return by_latency(comparison)


async def output_memory(stage: Stage, effort: Effort) -> Reading:
    """How far the program's memory rises above where it stood, while 1 GiB passes through it."""
    work = _writing_much(stage)
    async with stage.start_ours("output") as ours:
        await ours.do(Work(tool_name="execute_command", tool_params={"command": "pwd"}), 20)
        rises = []
        for _ in range(3):
            before_mib = _reset_peak_mib(ours.pid)
            await ours.do(work, 1)
            rises.append(_status_mib(ours.pid, "VmHWM") - before_mib)
    return Reading(ours=summarize(rises), note=f"each time: {', '.join(f'{rise:.1f}' for rise in rises)} MiB")


def _writing_much(stage: Stage) -> Work:
    params = {"command": "cat", "args": _parts(stage), "timeout": 120}
    return Work(tool_name="execute_command", tool_params=params)


def _parts(stage: Stage) -> list[str]:
    """The same file again and again, 1 GiB of text in all."""
    return [stage.files.text(_PART_BYTES)] * (GIB // _PART_BYTES)


async def _drain(stage: Stage) -> Batch:
    """Reads what `cat` writes as fast as one can, on this loop, and drops it."""
    began = time.perf_counter()
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec("cat", *_parts(stage), stdout=writing, cwd=stage.files.root)
    os.close(writing)
    buffer, total, done = bytearray(1 << 16), 0, asyncio.Event()
    loop = asyncio.get_running_loop()

    def read() -> None:
        nonlocal total
        count = os.readv(reading, [buffer])
        total += count
        if not count:
            loop.remove_reader(reading)
            done.set()

    loop.add_reader(reading, read)
    await done.wait()
    os.close(reading)
    await process.wait()
    if total != GIB:
        raise BenchmarkFailed(f"{total} bytes were read instead of {GIB}")
    took_s = time.perf_counter() - began
    return Batch(latencies_s=[took_s], wall_s=took_s)


def _reset_peak_mib(pid: int) -> float:
    """Lets the kernel count the highest resident memory anew; where it stands now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return _status_mib(pid, "VmRSS")


def _status_mib(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise BenchmarkFailed(f"the kernel does not say {name}")


async def survivors(stage: Stage, effort: Effort) -> Reading:
    """Processes alive after a command that forked all it could was ended by its time limit."""
    counted = []
    async with sandboxed(stage) as sandbox:
        python = sandbox.find_program("python3")
        assert python is not None
        for _ in range(3):
            mark = f"survivor-{uuid.uuid4().hex}"
            argv = (python, "-c", _FORKING, mark)
            running = asyncio.create_task(sandbox.run(Job(argv=argv, access=Access.WRITABLE, wall_s=1)))
            await asyncio.sleep(0.5)
            if len(marked(mark)) < 10:
                raise BenchmarkFailed("the forking program did not get to fork")
            await running
            counted.append(float(len(marked(mark))))
    return Reading(ours=summarize(counted), note="of 17 processes each time")
