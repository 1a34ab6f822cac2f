"""Networks that come in between: a login page where the server should be, and another network than before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from client_agent.link import connection as connection_module
from client_agent.link import network
from client_agent.link.connection import ServerConnection
from client_agent.link.status import LinkState
from client_agent.link.verdicts import Outcome
from tests.integration.link.conftest import TOKEN
from tests.integration.link.peer import Peer
from tests.integration.link.test_redirects import reached, waiting_for_events

Connect = Callable[..., AbstractAsyncContextManager[ServerConnection]]
PAGE = b"<html>Welcome to the hotel. Please log in.</html>"


@pytest.mark.parametrize("status", [200, 511])
async def test_a_login_page_is_told_as_such_and_the_stream_opens_once_it_is_gone(
    peer: Peer, connect: Connect, status: int
) -> None:
    async with connect(peer.url) as connection, waiting_for_events(connection):
        await (await peer.next()).answer(status, PAGE, **{"Content-Type": "text/html; charset=utf-8"})
        detail = await reached(connection, LinkState.LOGIN_PAGE)
        assert "log in to this network" in detail
        assert "hotel" not in detail
        await (await peer.next()).open_stream()
        await reached(connection, LinkState.CONNECTED)


async def test_a_portal_that_redirects_to_its_own_host_never_gets_the_token(
    peer: Peer, other: Peer, connect: Connect
) -> None:
    async with connect(peer.url) as connection, waiting_for_events(connection):
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        await (await peer.next()).answer(302, Location=f"{elsewhere}/login?then={peer.url}")
        detail = await reached(connection, LinkState.REDIRECTED)
    assert "log in to this network" in detail
    assert TOKEN not in detail
    assert other.connections == 0


@pytest.mark.parametrize("status", [200, 511])
async def test_a_result_that_a_login_page_took_is_kept_and_posted_again(
    peer: Peer, connect: Connect, status: int
) -> None:
    async with connect(peer.url) as connection:
        posting = asyncio.create_task(connection.post_result("t1", b"{}"))
        await (await peer.next()).answer(status, PAGE, **{"Content-Type": "text/html"})
        assert (await posting).outcome is Outcome.RETRY


async def test_another_network_opens_the_stream_anew_at_once(
    peer: Peer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "TICK_S", 0.01)
    monkeypatch.setattr(connection_module, "is_loopback", lambda server: False)
    monkeypatch.setattr(
        connection_module, "watch_network", lambda on_change, read: network.watch_network(on_change, read, 0.01)
    )
    addresses = [("10.0.0.2",)]
    async with connect(peer.url, read_addresses=lambda: addresses[-1]) as connection, waiting_for_events(connection):
        await (await peer.next()).open_stream()
        await reached(connection, LinkState.CONNECTED)
        addresses.append(("192.168.1.7",))
        await (await peer.next()).open_stream()
        await reached(connection, LinkState.CONNECTED)
