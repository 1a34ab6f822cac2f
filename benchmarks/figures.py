"""What a figure is: a piece of work, what it is held against, and what it should reach."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum

import msgspec

from benchmarks.stage import Stage
from benchmarks.timing import Summary


class Unit(StrEnum):
    MS = "ms"
    US = "µs"
    PER_SECOND = "/s"
    MIB = "MiB"
    PERCENT = "%"
    COUNT = ""


class Bound(StrEnum):
    """What a target holds for, and in which direction."""

    RATIO_AT_MOST = "≤ {} × floor"
    RATIO_AT_LEAST = "≥ {} × floor"
    VALUE_AT_MOST = "≤ {} {}"


class Target(msgspec.Struct, frozen=True):
    bound: Bound
    value: float

    def describe(self, unit: Unit) -> str:
        return self.bound.value.format(f"{self.value:g}", unit.value).strip()

    def is_met(self, reading: Reading) -> bool:
        if self.bound is Bound.VALUE_AT_MOST:
            return reading.ours.p50 <= self.value
        assert reading.ratio is not None
        if self.bound is Bound.RATIO_AT_MOST:
            return reading.ratio.p50 <= self.value
        return reading.ratio.p50 >= self.value


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured: ours, the floor beside it, and the ratio of each pair of repeats."""

    ours: Summary
    floor: Summary | None = None
    ratio: Summary | None = None
    note: str = ""


class Effort(msgspec.Struct, frozen=True):
    """How much of it: the short form is for every day, the long one for a closer look."""

    repeats: int
    scale: float
    budget_s: float

    def times(self, count: int) -> int:
        return max(1, round(self.scale * count))


SHORT = Effort(5, 1.0, 6.0)
LONG = Effort(11, 2.0, 60.0)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    key: str
    title: str
    unit: Unit
    measure: Callable[[Stage, Effort], Awaitable[Reading]]
    floor: str = ""
    target: Target | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A figure as it came out. `control_ms` is the machine's own pulse before and after."""

    figure: Figure
    reading: Reading
    control_ms: float
    took_s: float


def at_most(ratio: float) -> Target:
    return Target(Bound.RATIO_AT_MOST, ratio)


def at_least(ratio: float) -> Target:
    return Target(Bound.RATIO_AT_LEAST, ratio)


def no_more_than(value: float) -> Target:
    return Target(Bound.VALUE_AT_MOST, value)
