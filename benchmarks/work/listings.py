"""Listing directories: a whole walk against scandir, and a capped listing that must not care how much lies beyond."""

from __future__ import annotations

from benchmarks.figures import Effort, Reading
from benchmarks.stage import OURS, Stage, Work
from benchmarks.timing import Batch, take_turns
from benchmarks.work.reads import by_latency, compare

SMALL_TREE = 10_000
LARGE_TREE = 100_000
_RARE = "*.none"  # matches nothing: every entry has to be looked at, and the result is small


def walking(stage: Stage, count: int) -> Work:
    params = {"path": stage.files.tree(count), "recursive": True, "pattern": _RARE}
    return Work(tool_name="list_directory", tool_params=params)


def listing(stage: Stage, count: int) -> Work:
    params = {"path": stage.files.tree(count), "recursive": True, "pattern": "*"}
    return Work(tool_name="list_directory", tool_params=params)


async def small_whole(stage: Stage, effort: Effort) -> Reading:
    return by_latency(await compare(stage, walking(stage, SMALL_TREE), effort, count=effort.times(5)))


async def large_whole(stage: Stage, effort: Effort) -> Reading:
    return by_latency(await compare(stage, walking(stage, LARGE_TREE), effort, count=1))


async def capped(stage: Stage, effort: Effort) -> Reading:
    """100k beside 10k: what lies beyond the cap must not be paid for."""
    ours = await stage.ours()
    smaller, larger = listing(stage, SMALL_TREE), listing(stage, LARGE_TREE)

    async def run_smaller() -> Batch:
        return await ours.do(smaller, effort.times(10))

    async def run_larger() -> Batch:
        return await ours.do(larger, effort.times(10))

    comparison = await take_turns(
        {"10k": run_smaller, OURS: run_larger}, repeats=effort.repeats, budget_s=effort.budget_s
    )
    return Reading(
        ours=comparison.latencies_ms(OURS),
        floor=comparison.latencies_ms("10k"),
        ratio=comparison.ratios(OURS, "10k", lambda batch: batch.p50_s),
    )
