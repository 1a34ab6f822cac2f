from __future__ import annotations

import asyncio

from client_agent.link.sleep import SleepGauge, watch_sleep


class Clocks:
    wall = 1000.0
    monotonic = 50.0

    def gauge(self) -> SleepGauge:
        return SleepGauge(lambda: self.wall, lambda: self.monotonic, tick_s=0)


def test_time_that_only_the_wall_clock_saw_was_slept() -> None:
    clocks = Clocks()
    gauge = clocks.gauge()
    clocks.wall += 605
    clocks.monotonic += 5
    assert gauge.read_slept_s() == 600
    assert gauge.read_slept_s() == 0


def test_time_that_both_saw_was_not() -> None:
    clocks = Clocks()
    gauge = clocks.gauge()
    clocks.wall += 600
    clocks.monotonic += 600
    assert gauge.read_slept_s() == 0


def test_a_clock_put_right_by_a_little_or_set_back_is_no_sleep() -> None:
    clocks = Clocks()
    gauge = clocks.gauge()
    clocks.wall += 3
    assert gauge.read_slept_s() == 0
    clocks.wall -= 7200
    assert gauge.read_slept_s() == 0
    clocks.wall += 10
    assert gauge.read_slept_s() == 10


async def test_every_waking_is_told() -> None:
    clocks = Clocks()
    woken: asyncio.Queue[float] = asyncio.Queue()
    watching = asyncio.ensure_future(watch_sleep(clocks.gauge(), woken.put_nowait))
    async with asyncio.timeout(5):
        for slept_s in (60.0, 3600.0):
            clocks.wall += slept_s
            assert await woken.get() == slept_s
    watching.cancel()
    await asyncio.wait([watching])
    assert woken.empty()
