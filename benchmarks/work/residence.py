"""Being there: starting, waiting, and not growing."""

from __future__ import annotations

import asyncio
import subprocess
import time

from benchmarks.figures import Effort, Reading
from benchmarks.fixtures import KIB
from benchmarks.processes import cpu_times_s, cpu_used_s, environment, python, resident_mib, shared_out_mib
from benchmarks.stage import FLOOR, OURS, Stage, Work
from benchmarks.timing import Batch, summarize, take_turns
from benchmarks.work.reads import reading

# What a client of this protocol with typed messages and a journal cannot do without, as it comes.
NEEDED = ("asyncio", "ssl", "sqlite3", "aiohttp", "httpx", "httpx_aiohttp", "httpx_sse", "msgspec")
_SETTLE_S = 2.0
_IDLE_S = 5.0
_CALLS = 10_000


async def cold_start(stage: Stage, effort: Effort) -> Reading:
    """From the start of the process to its stream request on the server."""
    numbers = iter(range(1_000_000))

    async def run_floor() -> Batch:
        took_s = _import_s()
        return Batch(latencies_s=[took_s], wall_s=took_s)

    async def run_ours() -> Batch:
        async with stage.start_ours(f"cold-{next(numbers)}") as client:
            took_s = await client.connected_after_s()
        return Batch(latencies_s=[took_s], wall_s=took_s)

    comparison = await take_turns({FLOOR: run_floor, OURS: run_ours}, repeats=effort.repeats, budget_s=effort.budget_s)
    return Reading(
        ours=comparison.latencies_ms(OURS),
        floor=comparison.latencies_ms(FLOOR),
        ratio=comparison.ratios(OURS, FLOOR, lambda batch: batch.wall_s),
    )


def _import_s() -> float:
    began = time.perf_counter()
    subprocess.run(python("-c", f"import {', '.join(NEEDED)}"), check=True, env=environment(), timeout=60)
    return time.perf_counter() - began


async def idle_memory(stage: Stage, effort: Effort) -> Reading:
    """The program and everything it started, connected, after its first calls."""
    taken, bare, note = [], [], ""
    for number in range(3):
        async with stage.start_ours(f"idle-{number}") as ours, stage.start_floor(f"idle-floor-{number}") as floor:
            for client in (ours, floor):
                await client.do(reading(stage, 4 * KIB), 20)
            await asyncio.sleep(_SETTLE_S)
            taken.append(resident_mib(ours.pid))
            bare.append(resident_mib(floor.pid))
            note = f"pages shared with other programs in shares: {shared_out_mib(ours.pid):.1f} MiB"
            await ours.do(Work(tool_name="execute_command", tool_params={"command": "pwd"}), 20)
            await asyncio.sleep(_SETTLE_S)
            resident, shared_out = resident_mib(ours.pid), shared_out_mib(ours.pid)
            note += (
                f"; for a minute after a command, with the launcher's processes: {resident:.1f} ({shared_out:.1f}) MiB"
            )
    ratios = [mine / theirs for mine, theirs in zip(taken, bare, strict=True)]
    return Reading(ours=summarize(taken), floor=summarize(bare), ratio=summarize(ratios), note=note)


async def idle_cpu(stage: Stage, effort: Effort) -> Reading:
    """Processor time of the program while nothing is asked of it, in per cent of one core."""
    ours = await stage.ours()
    await asyncio.sleep(_SETTLE_S)
    shares = []
    for _ in range(2):
        began, before = time.perf_counter(), cpu_times_s(ours.pid)
        await asyncio.sleep(effort.times(1) * _IDLE_S)
        shares.append(100 * cpu_used_s(before, cpu_times_s(ours.pid)) / (time.perf_counter() - began))
    return Reading(ours=summarize(shares))


async def growth(stage: Stage, effort: Effort) -> Reading:
    """How much more memory the program holds after 10,000 calls than after its first thousand."""
    async with stage.start_ours("growth") as ours:
        work = reading(stage, 4 * KIB)
        await ours.do(work, 1000, in_flight=8)
        before = resident_mib(ours.pid)
        await ours.do(work, _CALLS, in_flight=8)
        after = resident_mib(ours.pid)
    return Reading(ours=summarize([after - before]), note=f"{before:.1f} → {after:.1f} MiB")
