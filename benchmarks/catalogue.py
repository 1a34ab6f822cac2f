"""Every figure there is, with its floor and its target."""

from __future__ import annotations

from benchmarks.figures import Figure, Unit, at_least, at_most, no_more_than
from benchmarks.work import backlog, calibration, decisions, listings, reads, residence

_READ = "bare aiohttp client: SSE → read → POST"

FIGURES: tuple[Figure, ...] = (
    Figure(
        key="calibration",
        title="the floor against itself",
        unit=Unit.MS,
        measure=calibration.floor_against_itself,
        floor=_READ,
    ),
    Figure(
        key="read_4k",
        title="read 4 KiB, end to end",
        unit=Unit.MS,
        measure=reads.small,
        floor=_READ,
        target=at_most(1.5),
    ),
    Figure(
        key="read_4k_50",
        title="read 4 KiB, 50 in flight",
        unit=Unit.PER_SECOND,
        measure=reads.small_together,
        floor=_READ,
        target=at_least(0.6),
    ),
    Figure(key="read_1m", title="read 1 MiB", unit=Unit.MS, measure=reads.large, floor=_READ, target=at_most(1.2)),
    Figure(
        key="read_1m_50",
        title="read 1 MiB, 50 in flight",
        unit=Unit.PER_SECOND,
        measure=reads.large_together,
        floor=_READ,
    ),
    Figure(
        key="list_10k",
        title="list 10k files, whole",
        unit=Unit.MS,
        measure=listings.small_whole,
        floor="bare client: SSE → scandir → POST",
        target=at_most(1.5),
    ),
    Figure(
        key="list_100k",
        title="list 100k files, whole",
        unit=Unit.MS,
        measure=listings.large_whole,
        floor="bare client: SSE → scandir → POST",
        target=at_most(1.5),
    ),
    Figure(
        key="list_capped",
        title="list 100k files, capped",
        unit=Unit.MS,
        measure=listings.capped,
        floor="the same with 10k files",
        target=at_most(1.2),
    ),
    Figure(
        key="decision",
        title="a decision, with 1,000 rules",
        unit=Unit.US,
        measure=decisions.with_rules,
        floor="the same without rules",
        target=no_more_than(100),
    ),
    Figure(
        key="backlog",
        title="10,000-event backlog",
        unit=Unit.PER_SECOND,
        measure=backlog.drained,
        floor="bare client on the same backlog",
    ),
    Figure(
        key="cold_start",
        title="cold start to connected",
        unit=Unit.MS,
        measure=residence.cold_start,
        floor="importing what it needs",
        target=at_most(1.5),
    ),
    Figure(
        key="idle_memory",
        title="idle memory",
        unit=Unit.MIB,
        measure=residence.idle_memory,
        floor="bare client",
        target=no_more_than(50),
    ),
    Figure(
        key="idle_cpu",
        title="idle processor time",
        unit=Unit.PERCENT,
        measure=residence.idle_cpu,
        target=no_more_than(0.2),
    ),
    Figure(
        key="growth",
        title="memory growth over 10,000 calls",
        unit=Unit.MIB,
        measure=residence.growth,
        target=no_more_than(2),
    ),
)
