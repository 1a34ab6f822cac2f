"""The table and the JSON."""

from __future__ import annotations

import json
from unittest.mock import Mock

import pytest

from benchmarks import report
from benchmarks.catalogue import FIGURES
from benchmarks.curves import CURVES, Drawn, Point
from benchmarks.figures import Effort, Figure, Reading, Result, Target, Unit, at_least, at_most, no_more_than
from benchmarks.machine import Control, describe_machine
from benchmarks.stage import Stage
from benchmarks.timing import summarize


async def measure_nothing(stage: Stage, effort: Effort) -> Reading:
    raise AssertionError("not measured here")


def result(target: Target | None, *, ours: float = 1.0, ratio: float | None = None, unit: Unit = Unit.MS) -> Result:
    figure = Figure(key="k", title="some work", unit=unit, measure=measure_nothing, target=target)
    reading = Reading(ours=summarize([ours]), ratio=summarize([ratio]) if ratio is not None else None)
    return Result(figure=figure, reading=reading, control_ms=0.6, took_s=1.0)


def control(quiet_ms: float = 0.6) -> Control:
    taken = Mock(spec=Control)
    taken.quiet_ms = quiet_ms
    taken.was_busy = lambda value: Control.was_busy(taken, value)
    return taken


@pytest.mark.parametrize(
    ("target", "ours", "ratio", "expected"),
    [
        (at_most(1.5), 1.0, 1.5, "met"),
        (at_most(1.5), 1.0, 1.51, "MISSED"),
        (at_least(0.6), 1.0, 0.6, "met"),
        (at_least(0.6), 1.0, 0.59, "MISSED"),
        (no_more_than(50), 50.0, None, "met"),
        (no_more_than(50), 50.1, None, "MISSED"),
        (None, 1.0, None, "–"),
    ],
)
def test_a_target_is_met_up_to_its_bound(
    target: Target | None, ours: float, ratio: float | None, expected: str
) -> None:
    assert report.verdict(result(target, ours=ours, ratio=ratio)) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0.3712, "0.371"), (12.345, "12.3"), (6744.4, "6,744"), (0.00004, "4e-05"), (0.0, "0")]
)
def test_numbers_have_three_digits_that_matter(value: float, expected: str) -> None:
    assert report.number(value) == expected


def test_a_busy_machine_is_said_beside_the_figure() -> None:
    assert report.row(result(None), control(quiet_ms=0.6))[-1] == "0.60"
    assert report.row(result(None), control(quiet_ms=0.3))[-1] == "0.60 busy"


def test_the_tail_is_shown_for_times_and_not_for_rates() -> None:
    assert report.row(result(None, unit=Unit.MS), control())[2] == "1 ms"
    assert report.row(result(None, unit=Unit.PER_SECOND), control())[2] == "–"


def test_the_columns_of_the_table_are_aligned() -> None:
    lines = report.table(("work", "p50"), [("read", "1 ms"), ("a longer name", "10.5 ms")]).splitlines()
    assert lines == [
        "work               p50",
        "─────────────  ───────",
        "read              1 ms",
        "a longer name  10.5 ms",
    ]


def test_the_json_holds_figures_curves_and_no_names_of_this_machine() -> None:
    import platform

    drawn = Drawn(key="c", title="t", x_label="x", y_label="y", points=[Point(x=1, values={"floor": 2.0})])
    content = report.to_json(describe_machine(), [result(at_most(1.5), ratio=1.2)], control(), [drawn])
    body = json.loads(content)
    assert body["figures"][0]["met"] is True
    assert body["figures"][0]["ratio"]["p50"] == 1.2
    assert body["curves"][0]["points"] == [{"x": 1.0, "values": {"floor": 2.0}}]
    assert platform.node() not in body["machine"].values()


def test_figures_and_curves_are_told_apart_by_their_keys() -> None:
    keys = [figure.key for figure in FIGURES]
    assert len(set(keys)) == len(keys)
    assert len({curve.key for curve in CURVES}) == len(CURVES)


def test_a_target_relative_to_a_floor_says_which_floor() -> None:
    for figure in FIGURES:
        if figure.target is not None and "floor" in figure.target.describe(figure.unit):
            assert figure.floor, figure.key
