"""What repeated timings say: medians and percentiles, and ratios of things measured in the same window."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

MIN_REPEATS = 3


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One series of values, all of the same unit."""

    count: int
    p50: float
    p99: float
    low: float
    high: float


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one repeat: how long each took, and all of them together."""

    latencies_s: list[float]
    wall_s: float

    @property
    def per_second(self) -> float:
        return len(self.latencies_s) / self.wall_s

    @property
    def p50_s(self) -> float:
        return statistics.median(self.latencies_s)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The same work done by several, turn about. Repeat n of one stands beside repeat n of every other."""

    batches: dict[str, list[Batch]]

    def latencies_ms(self, name: str) -> Summary:
        return summarize([1e3 * each for batch in self.batches[name] for each in batch.latencies_s])

    def latencies_us(self, name: str) -> Summary:
        return summarize([1e6 * each for batch in self.batches[name] for each in batch.latencies_s])

    def rates(self, name: str) -> Summary:
        return summarize([batch.per_second for batch in self.batches[name]])

    def ratios(self, name: str, floor: str, of: Callable[[Batch], float]) -> Summary:
        """`of` each repeat of `name`, divided by that of the floor's repeat in the same window."""
        pairs = zip(self.batches[name], self.batches[floor], strict=True)
        return summarize([of(ours) / of(theirs) for ours, theirs in pairs])


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarize(values: Sequence[float]) -> Summary:
    """Raises ValueError when there is nothing to summarize."""
    if not values:
        raise ValueError("no values were measured")
    return Summary(
        count=len(values),
        p50=statistics.median(values),
        p99=percentile(values, 0.99),
        low=min(values),
        high=max(values),
    )


async def take_turns(
    contenders: dict[str, Callable[[], Awaitable[Batch]]], *, repeats: int, warm_up: int = 1, budget_s: float = math.inf
) -> Comparison:
    """A/B/A/B: every contender once a round, so that what the machine does meanwhile happens to all of them.

    On a machine too slow for all the repeats within the budget there are fewer, but no fewer than three.
    """
    began = time.perf_counter()
    for _ in range(warm_up):
        for run in contenders.values():
            await run()
    batches: dict[str, list[Batch]] = {name: [] for name in contenders}
    for done in range(repeats):
        if done >= MIN_REPEATS and time.perf_counter() - began > budget_s:
            break
        for name, run in contenders.items():
            batches[name].append(await run())
    return Comparison(batches=batches)
