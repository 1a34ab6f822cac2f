"""Reading a file: signal, read, result."""

from __future__ import annotations

from benchmarks.figures import Effort, Reading
from benchmarks.fixtures import KIB, MIB
from benchmarks.stage import FLOOR, OURS, BenchmarkFailed, Stage, Work
from benchmarks.timing import Batch, Comparison, take_turns


async def compare(stage: Stage, work: Work, effort: Effort, *, count: int, in_flight: int = 1) -> Comparison:
    """The floor and the program, turn about, on the same work."""
    floor, ours = await stage.floor(), await stage.ours()

    async def run_floor() -> Batch:
        return await floor.do(work, count, in_flight=in_flight)

    async def run_ours() -> Batch:
        return await ours.do(work, count, in_flight=in_flight)

    return await take_turns({FLOOR: run_floor, OURS: run_ours}, repeats=effort.repeats, budget_s=effort.budget_s)


def by_latency(comparison: Comparison, note: str = "") -> Reading:
    """For calls that are made one at a time: what each took."""
    return Reading(
        ours=comparison.latencies_ms(OURS),
        floor=comparison.latencies_ms(FLOOR),
        ratio=comparison.ratios(OURS, FLOOR, lambda batch: batch.p50_s),
        note=note,
    )


def by_rate(comparison: Comparison, note: str = "") -> Reading:
    """For calls in flight together: how many a second."""
    return Reading(
        ours=comparison.rates(OURS),
        floor=comparison.rates(FLOOR),
        ratio=comparison.ratios(OURS, FLOOR, lambda batch: batch.per_second),
        note=note,
    )


def reading(stage: Stage, size_bytes: int) -> Work:
    return Work(tool_name="read_file", tool_params={"path": stage.files.text(size_bytes)})


async def _check_size(stage: Stage, size_bytes: int) -> None:
    ours = await stage.ours()
    if ours.result_bytes < size_bytes:
        raise BenchmarkFailed(f"a result of {ours.result_bytes} bytes cannot hold a file of {size_bytes}")


async def small(stage: Stage, effort: Effort) -> Reading:
    comparison = await compare(stage, reading(stage, 4 * KIB), effort, count=effort.times(400))
    await _check_size(stage, 4 * KIB)
    return by_latency(comparison)


async def small_together(stage: Stage, effort: Effort) -> Reading:
    comparison = await compare(stage, reading(stage, 4 * KIB), effort, count=effort.times(1500), in_flight=50)
    latencies = comparison.latencies_ms(OURS)
    return by_rate(comparison, f"latency p50 {latencies.p50:.1f} ms, p99 {latencies.p99:.1f} ms")


async def large(stage: Stage, effort: Effort) -> Reading:
    comparison = await compare(stage, reading(stage, MIB), effort, count=effort.times(40))
    await _check_size(stage, MIB)
    return by_latency(comparison)


async def large_together(stage: Stage, effort: Effort) -> Reading:
    comparison = await compare(stage, reading(stage, MIB), effort, count=effort.times(100), in_flight=50)
    latencies = comparison.latencies_ms(OURS)
    return by_rate(comparison, f"latency p50 {latencies.p50:.0f} ms, p99 {latencies.p99:.0f} ms")
