"""What repeated timings say."""

from __future__ import annotations

import pytest

from benchmarks.timing import Batch, Comparison, percentile, summarize, take_turns


def batch(*latencies_s: float, wall_s: float = 1.0) -> Batch:
    return Batch(latencies_s=list(latencies_s), wall_s=wall_s)


@pytest.mark.parametrize(
    ("count", "share", "expected"), [(1, 0.99, 1), (100, 0.99, 99), (100, 0.5, 50), (101, 0.99, 100), (10, 1.0, 10)]
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(count: int, share: float, expected: int) -> None:
    assert percentile(list(range(count, 0, -1)), share) == expected


def test_a_summary_keeps_the_middle_the_tail_and_the_ends() -> None:
    summary = summarize([float(value) for value in range(1, 201)])
    assert (summary.count, summary.p50, summary.p99, summary.low, summary.high) == (200, 100.5, 198, 1, 200)


def test_nothing_measured_is_an_error_and_not_a_zero() -> None:
    with pytest.raises(ValueError, match="no values"):
        summarize([])


def test_a_ratio_is_taken_between_repeats_of_the_same_window() -> None:
    # The machine was ten times slower during the second repeat, for both.
    comparison = Comparison(batches={"floor": [batch(0.001), batch(0.010)], "ours": [batch(0.0015), batch(0.015)]})
    ratios = comparison.ratios("ours", "floor", lambda each: each.p50_s)
    assert ratios.low == pytest.approx(1.5)
    assert ratios.high == pytest.approx(1.5)


def test_repeats_without_a_partner_are_an_error() -> None:
    comparison = Comparison(batches={"floor": [batch(0.001)], "ours": [batch(0.001), batch(0.001)]})
    with pytest.raises(ValueError, match="shorter"):
        comparison.ratios("ours", "floor", lambda each: each.p50_s)


def test_a_rate_counts_all_calls_of_a_repeat() -> None:
    assert batch(0.2, 0.2, 0.2, wall_s=0.5).per_second == pytest.approx(6)


async def test_contenders_take_turns_and_warm_up_is_not_counted() -> None:
    order: list[str] = []

    async def run_floor() -> Batch:
        order.append("floor")
        return batch(float(len(order)))

    async def run_ours() -> Batch:
        order.append("ours")
        return batch(float(len(order)))

    comparison = await take_turns({"floor": run_floor, "ours": run_ours}, repeats=2, warm_up=1)
    assert order == ["floor", "ours"] * 3
    assert [each.latencies_s for each in comparison.batches["floor"]] == [[3.0], [5.0]]


async def test_a_spent_budget_leaves_three_repeats() -> None:
    async def run() -> Batch:
        return batch(1.0)

    comparison = await take_turns({"floor": run}, repeats=10, budget_s=0)
    assert len(comparison.batches["floor"]) == 3
