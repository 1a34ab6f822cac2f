from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from client_agent.link.status import LinkState, StatusBoard


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_since_moves_only_with_the_state() -> None:
    clock = Clock()
    board = StatusBoard(clock)
    clock.now = 10
    board.post(LinkState.RETRYING, "first", retry_in_s=5)
    clock.now = 20
    board.post(LinkState.RETRYING, "second", retry_in_s=7)
    assert (board.current.since, board.current.detail, board.current.retry_at) == (at(10), "second", at(27))
    clock.now = 30
    board.post(LinkState.CONNECTED)
    assert (board.current.since, board.current.detail, board.current.retry_at) == (at(30), "", None)


def test_the_last_byte_outlives_a_change_of_state() -> None:
    clock = Clock()
    board = StatusBoard(clock)
    assert board.current.last_byte_at is None
    clock.now = 5
    board.hear()
    board.post(LinkState.RETRYING)
    assert board.current.last_byte_at == at(5)


async def test_those_who_wait_are_told() -> None:
    board = StatusBoard()
    waiting = asyncio.ensure_future(board.wait_until(lambda status: status.state is LinkState.CONNECTED))
    await asyncio.sleep(0)
    board.post(LinkState.RETRYING)
    await asyncio.sleep(0)
    assert not waiting.done()
    board.post(LinkState.CONNECTED)
    async with asyncio.timeout(5):
        assert (await waiting).state is LinkState.CONNECTED
