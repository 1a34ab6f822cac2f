"""Cost as the work grows: one series of points a curve, the floor beside it where there is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from benchmarks.figures import Effort
from benchmarks.fixtures import KIB
from benchmarks.stage import FLOOR, OURS, Stage
from benchmarks.timing import Comparison
from benchmarks.work.decisions import decider, make_rules
from benchmarks.work.listings import listing, walking
from benchmarks.work.reads import compare, reading

_EFFORT = Effort(3, 1, 20)


class Point(msgspec.Struct, frozen=True, kw_only=True):
    x: float
    values: dict[str, float]


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    title: str
    x_label: str
    y_label: str
    xs: tuple[int, ...]
    measure: Callable[[Stage, int], Awaitable[dict[str, float]]]


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """A curve as it came out."""

    key: str
    title: str
    x_label: str
    y_label: str
    points: list[Point]


async def draw(stage: Stage, curve: Curve) -> Drawn:
    points = [Point(x=x, values=await curve.measure(stage, x)) for x in curve.xs]
    return Drawn(key=curve.key, title=curve.title, x_label=curve.x_label, y_label=curve.y_label, points=points)


async def _in_flight(stage: Stage, x: int) -> dict[str, float]:
    comparison = await compare(stage, reading(stage, 4 * KIB), _EFFORT, count=max(300, 20 * x), in_flight=x)
    return {name: comparison.rates(name).p50 for name in (OURS, FLOOR)}


async def _files(stage: Stage, x: int) -> dict[str, float]:
    whole = await compare(stage, walking(stage, x), _EFFORT, count=1)
    ours = await stage.ours()
    capped = Comparison(batches={"capped": [await ours.do(listing(stage, x), 5) for _ in range(_EFFORT.repeats)]})
    return {
        f"{OURS}, whole": whole.latencies_ms(OURS).p50,
        FLOOR: whole.latencies_ms(FLOOR).p50,
        f"{OURS}, capped": capped.latencies_ms("capped").p50,
    }


async def _rules(stage: Stage, x: int) -> dict[str, float]:
    decide = decider(stage, make_rules(x))
    decide(50)
    return {OURS: Comparison(batches={OURS: [decide(300)]}).latencies_us(OURS).p50}


async def _journal_rows(stage: Stage, x: int) -> dict[str, float]:
    """A program of its own that has already done so many calls."""
    async with stage.start_ours(f"rows-{x}") as ours:
        work = reading(stage, 4 * KIB)
        await ours.do(work, max(100, x), in_flight=16)
        batches = [await ours.do(work, 300) for _ in range(_EFFORT.repeats)]
    return {OURS: Comparison(batches={OURS: batches}).latencies_ms(OURS).p50}


CURVES: tuple[Curve, ...] = (
    Curve(
        key="in_flight",
        title="read 4 KiB",
        x_label="calls in flight",
        y_label="calls a second",
        xs=(1, 2, 4, 8, 16, 32, 64),
        measure=_in_flight,
    ),
    Curve(
        key="files",
        title="list a tree",
        x_label="files in the tree",
        y_label="ms",
        xs=(1_000, 10_000, 100_000),
        measure=_files,
    ),
    Curve(key="rules", title="decide", x_label="rules", y_label="µs", xs=(0, 10, 100, 1_000, 10_000), measure=_rules),
    Curve(
        key="journal_rows",
        title="read 4 KiB",
        x_label="calls already in the journal",
        y_label="ms",
        xs=(0, 1_000, 10_000, 50_000),
        measure=_journal_rows,
    ),
)
