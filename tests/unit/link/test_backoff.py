from __future__ import annotations

from client_agent.link.backoff import Backoff, jittered_s


def lowest() -> float:
    return 0.0


def highest() -> float:
    return 1.0


def test_the_ceiling_doubles_up_to_the_cap() -> None:
    backoff = Backoff(60, random=highest)
    assert [backoff.next_s() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_the_jitter_spans_everything_from_the_floor_to_the_ceiling() -> None:
    assert jittered_s(3, cap_s=60, random=lowest) == 0
    assert jittered_s(3, cap_s=60, random=lambda: 0.5) == 4
    assert jittered_s(3, cap_s=60, floor_s=2, random=lowest) == 2
    assert jittered_s(3, cap_s=60, floor_s=2, random=highest) == 8


def test_a_floor_above_the_ceiling_is_kept() -> None:
    assert jittered_s(0, cap_s=60, floor_s=900, random=highest) == 900


def test_after_a_success_it_begins_anew() -> None:
    backoff = Backoff(60, random=highest)
    for _ in range(5):
        backoff.next_s()
    backoff.reset()
    assert backoff.next_s() == 1


def test_the_slow_pace_is_near_the_cap_from_the_first_time() -> None:
    assert Backoff(60, random=lowest).slow_s() == 30
    assert Backoff(60, random=highest).slow_s() == 60
    assert Backoff(60, random=lowest).slow_s(floor_s=100) == 100


def test_a_failure_count_beyond_all_bounds_is_only_the_cap() -> None:
    assert jittered_s(10**9, cap_s=60, random=highest) == 60
