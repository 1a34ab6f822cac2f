"""Another network is noticed; none is no reason to try."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from client_agent.link.network import Addresses, read_addresses, watch_network


@pytest.mark.parametrize(
    ("seen", "changes"),
    [
        ([("10.0.0.2",), ("10.0.0.2",), ("10.0.0.2",)], 0),
        ([("10.0.0.2",), ("192.168.1.7",), ("192.168.1.7",)], 1),
        ([("10.0.0.2",), (), ()], 0),
        ([("10.0.0.2",), (), ("10.0.0.2",)], 1),
        ([(), ("10.0.0.2",), ("10.0.0.2", "fd00::2")], 2),
    ],
)
async def test_a_change_is_told_when_there_is_a_network_to_try(seen: list[Addresses], changes: int) -> None:
    told: list[None] = []
    looks: Iterator[Addresses] = iter(seen)
    done = asyncio.Event()

    def read() -> Addresses:
        try:
            return next(looks)
        except StopIteration:
            done.set()
            return seen[-1]

    task = asyncio.create_task(watch_network(lambda: told.append(None), read, tick_s=0))
    await asyncio.wait_for(done.wait(), 20)
    task.cancel()
    await asyncio.wait([task])
    assert len(told) == changes


def test_looking_sends_nothing_and_always_answers() -> None:
    assert all(isinstance(address, str) and address for address in read_addresses())
