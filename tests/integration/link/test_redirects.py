"""Redirects: followed within the origin, never beyond, and the token never travels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from client_agent.link.connection import ServerConnection
from client_agent.link.status import LinkState
from client_agent.link.verdicts import Delivery, Outcome
from tests.integration.link.peer import PATIENCE_S, Peer

Connect = Callable[..., AbstractAsyncContextManager[ServerConnection]]


@asynccontextmanager
async def waiting_for_events(connection: ServerConnection) -> AsyncIterator[None]:
    events = connection.events()
    waiting = asyncio.ensure_future(anext(events))
    try:
        yield
    finally:
        waiting.cancel()
        await asyncio.wait([waiting])
        await events.aclose()


async def reached(connection: ServerConnection, state: LinkState) -> str:
    async with asyncio.timeout(PATIENCE_S):
        return (await connection.wait_until(lambda status: status.state is state)).detail


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("absolute", [True, False])
async def test_the_stream_follows_within_its_origin(peer: Peer, connect: Connect, status: int, absolute: bool) -> None:
    async with connect(peer.url) as connection, waiting_for_events(connection):
        location = (peer.url if absolute else "") + "/elsewhere?x=a%26b"
        await (await peer.next()).answer(status, Location=location)
        second = await peer.next()
        assert second.request.target == "/elsewhere?x=a%26b"
        assert "authorization" in second.request.headers
        await second.open_stream()
        await reached(connection, LinkState.CONNECTED)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_the_stream_never_follows_to_another_origin(
    peer: Peer, other: Peer, connect: Connect, status: int
) -> None:
    async with connect(peer.url) as connection, waiting_for_events(connection):
        await (await peer.next()).answer(status, Location=f"{other.url}/my/projects/p1/chat/stream")
        detail = await reached(connection, LinkState.REDIRECTED)
        await peer.next()  # it asks again, the one it knows
    assert peer.url in detail
    assert other.url in detail
    assert "change `server`" in detail
    assert other.connections == 0


async def test_a_way_round_over_an_own_address_does_not_lead_out(peer: Peer, other: Peer, connect: Connect) -> None:
    async with connect(peer.url) as connection, waiting_for_events(connection):
        await (await peer.next()).answer(307, Location="/next")
        await (await peer.next()).answer(307, Location=f"//127.0.0.1:{other.port}/")
        await reached(connection, LinkState.REDIRECTED)
    assert other.connections == 0


async def test_a_circle_is_left(peer: Peer, connect: Connect) -> None:
    async with connect(peer.url) as connection, waiting_for_events(connection):
        for _ in range(6):
            await (await peer.next()).answer(302, Location="/again")
        assert "circle" in await reached(connection, LinkState.REDIRECTED)


Send = Callable[[ServerConnection], Awaitable[Delivery]]
both_ways = pytest.mark.parametrize(
    "send",
    [lambda connection: connection.post_result("t1", b'{"a":1}'), lambda connection: connection.reject("a1", "no")],
    ids=["result", "rejection"],
)


@both_ways
@pytest.mark.parametrize("status", [307, 308])
async def test_a_post_follows_within_its_origin_with_its_body(
    peer: Peer, connect: Connect, send: Send, status: int
) -> None:
    async with connect(peer.url) as connection:
        sending = asyncio.ensure_future(send(connection))
        first = await peer.next()
        await first.answer(status, Location="/moved")
        second = await peer.next()
        assert (second.request.method, second.request.target) == ("POST", "/moved")
        assert second.request.body == first.request.body
        await second.answer(200)
        assert (await sending).outcome is Outcome.DELIVERED


@both_ways
@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_post_is_never_turned_into_something_else(
    peer: Peer, connect: Connect, send: Send, status: int
) -> None:
    async with connect(peer.url) as connection:
        sending = asyncio.ensure_future(send(connection))
        await (await peer.next()).answer(status, Location="/moved")
        assert (await sending).outcome is Outcome.RETRY
    assert len(peer.requests) == 1


@both_ways
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_post_never_follows_to_another_origin(
    peer: Peer, other: Peer, connect: Connect, send: Send, status: int
) -> None:
    async with connect(peer.url) as connection:
        sending = asyncio.ensure_future(send(connection))
        await (await peer.next()).answer(status, Location=f"{other.url}/")
        assert (await sending).outcome is Outcome.RETRY
    assert other.connections == 0
