"""Results, approvals and rejections against a server that is told what to do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from client_agent.link import http
from client_agent.link.connection import ServerConnection
from client_agent.link.verdicts import Delivery, Outcome
from tests.integration.link.conftest import TOKEN
from tests.integration.link.peer import PATIENCE_S, Exchange, Peer

Connect = Callable[..., AbstractAsyncContextManager[ServerConnection]]
Send = Callable[[ServerConnection], Awaitable[Delivery]]

WAYS: list[Send] = [
    lambda connection: connection.post_result("t1", b'{"status":"completed"}'),
    lambda connection: connection.approve("a1"),
]
both_ways = pytest.mark.parametrize("send", WAYS, ids=["result", "approval"])


async def outcome(sending: Awaitable[Delivery]) -> Delivery:
    async with asyncio.timeout(PATIENCE_S):
        return await sending


async def test_the_requests_are_what_the_protocol_says(peer: Peer, connect: Connect) -> None:
    async def answer_all() -> None:
        for _ in range(3):
            await (await peer.next()).answer(200, b'{"success":true}')

    async with connect(peer.url) as connection, asyncio.TaskGroup() as tasks:
        tasks.create_task(answer_all())
        deliveries = [
            await connection.post_result("t/1", b'{"status":"completed","result":{}}'),
            await connection.approve("a1"),
            await connection.reject("a1", "no, thank you…"),
        ]
    assert [delivery.outcome for delivery in deliveries] == [Outcome.DELIVERED] * 3
    assert [(request.method, request.target, request.body.decode()) for request in peer.requests] == [
        ("POST", "/my/projects/p1/tools/t%2F1/result", '{"status":"completed","result":{}}'),
        ("POST", "/my/projects/p1/approvals/a1/approve", '{"decision":"approved"}'),
        ("POST", "/my/projects/p1/approvals/a1/reject", '{"reason":"no, thank you…"}'),
    ]
    for request in peer.requests:
        assert request.headers["authorization"] == f"Bearer {TOKEN}".encode()
        assert request.headers["content-type"] == b"application/json"
    assert peer.connections == 1  # all on the same warm connection


@both_ways
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, Outcome.DELIVERED),
        (409, Outcome.DELIVERED),
        (401, Outcome.UNAUTHORIZED),
        (403, Outcome.REFUSED),
        (404, Outcome.REFUSED),
        (413, Outcome.TOO_LARGE),
        (429, Outcome.RETRY),
        (500, Outcome.RETRY),
    ],
)
async def test_every_answer_gets_its_verdict(
    peer: Peer, connect: Connect, send: Send, status: int, expected: Outcome
) -> None:
    async with connect(peer.url) as connection:
        sending = asyncio.ensure_future(outcome(send(connection)))
        await (await peer.next()).answer(status, b"because", Retry_After="7")
        delivery = await sending
    assert (delivery.outcome, delivery.status) == (expected, status)
    assert delivery.detail == f"the server answered {status}: because"
    assert delivery.retry_after_s == (7 if expected is Outcome.RETRY else 0)


async def _cut(exchange: Exchange) -> None:
    exchange.cut()


async def _reset(exchange: Exchange) -> None:
    exchange.reset()


async def _babble(exchange: Exchange) -> None:
    await exchange.send(b"220 mail.example ESMTP\r\n\r\n")
    exchange.cut()


async def _promise_more(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
    exchange.cut()


async def _break_chunks(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nQQ\r\n")
    exchange.cut()


@both_ways
@pytest.mark.parametrize("misbehave", [_cut, _reset, _babble, _promise_more, _break_chunks])
async def test_a_broken_exchange_is_a_verdict_not_an_exception(
    peer: Peer, connect: Connect, send: Send, misbehave: Callable[[Exchange], Awaitable[None]]
) -> None:
    async with connect(peer.url) as connection:
        sending = asyncio.ensure_future(outcome(send(connection)))
        await misbehave(await peer.next())
        delivery = await sending
    assert delivery.outcome is Outcome.RETRY
    assert delivery.status is None
    assert delivery.detail


@both_ways
async def test_a_server_that_is_not_there_is_a_verdict(connect: Connect, send: Send) -> None:
    async with Peer() as gone:
        pass
    async with connect(gone.url) as connection:
        assert (await outcome(send(connection))).outcome is Outcome.RETRY


@both_ways
async def test_an_answer_that_never_comes_is_given_up(
    peer: Peer, connect: Connect, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "POST_TIMEOUT_S", 0.2)
    async with connect(peer.url) as connection:
        sending = asyncio.ensure_future(outcome(send(connection)))
        exchange = await peer.next()
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nslow")
        assert (await sending).outcome is Outcome.RETRY
        await exchange.hung_up()


@both_ways
async def test_an_endless_answer_is_read_no_further_than_the_limit(peer: Peer, connect: Connect, send: Send) -> None:
    async with connect(peer.url) as connection:
        sending = asyncio.ensure_future(outcome(send(connection)))
        exchange = await peer.next()
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 100_000)
        assert (await sending).outcome is Outcome.DELIVERED
        await exchange.hung_up()


@both_ways
async def test_a_refused_token_is_read_again_and_tried_once(
    peer: Peer, connect: Connect, send: Send, env: dict[str, str]
) -> None:
    async with connect(peer.url) as connection:
        env["CLIENT_AGENT_TOKEN"] = "secret-token-2"
        sending = asyncio.ensure_future(outcome(send(connection)))
        await (await peer.next()).answer(401)
        second = await peer.next()
        assert second.request.headers["authorization"] == b"Bearer secret-token-2"
        await second.answer(401)
        assert (await sending).outcome is Outcome.UNAUTHORIZED
    assert len(peer.requests) == 2


@both_ways
async def test_without_a_token_nothing_is_sent(peer: Peer, connect: Connect, send: Send, env: dict[str, str]) -> None:
    env.clear()
    async with connect(peer.url) as connection:
        delivery = await outcome(send(connection))
    assert delivery.outcome is Outcome.UNAUTHORIZED
    assert "CLIENT_AGENT_TOKEN" in delivery.detail
    assert peer.connections == 0


@both_ways
async def test_the_token_is_in_no_message(
    peer: Peer, connect: Connect, send: Send, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connect(peer.url) as connection:
        sending = asyncio.ensure_future(outcome(send(connection)))
        await (await peer.next()).answer(400, f"what is {TOKEN}?".encode())
        assert (await sending).detail == "the server answered 400: what is ***?"
    assert TOKEN not in caplog.text


async def test_a_large_result_arrives_whole(peer: Peer, connect: Connect) -> None:
    body = b"0123456789abcdef" * 500_000
    async with connect(peer.url) as connection:
        sending = asyncio.ensure_future(outcome(connection.post_result("t1", body)))
        exchange = await peer.next()
        assert exchange.request.body == body
        await exchange.answer(200)
        assert (await sending).outcome is Outcome.DELIVERED


async def test_a_result_refused_before_it_was_sent_whole_is_too_large(connect: Connect) -> None:
    async with Peer(reads_bodies=False) as peer, connect(peer.url) as connection:
        sending = asyncio.ensure_future(outcome(connection.post_result("t1", b"x" * 20_000_000)))
        exchange = await peer.next()
        await exchange.send(b"HTTP/1.1 413 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        exchange.writer.write_eof()
        assert (await sending).outcome is Outcome.TOO_LARGE


async def test_many_results_in_flight_leave_room_for_an_approval(peer: Peer, connect: Connect) -> None:
    async with connect(peer.url) as connection, asyncio.TaskGroup() as tasks:
        sent = [tasks.create_task(connection.post_result(f"t{n}", b"{}")) for n in range(200)]
        first = [await peer.next() for _ in range(http.RESULTS_IN_FLIGHT)]
        approving = tasks.create_task(connection.approve("a1"))
        exchange = await peer.next()  # no more results come while those are unanswered
        assert exchange.request.target.endswith("/approve")
        await exchange.answer(200)
        assert (await approving).outcome is Outcome.DELIVERED
        for waiting in first:
            await waiting.answer(200)
        for _ in range(200 - len(first)):
            await (await peer.next()).answer(200)
    assert {task.result().outcome for task in sent} == {Outcome.DELIVERED}
    assert len({request.target for request in peer.requests}) == 201


async def test_when_the_stream_falls_silent_posts_under_way_are_given_back(peer: Peer, connect: Connect) -> None:
    async with connect(peer.url) as connection:
        events = connection.events()
        waiting = asyncio.ensure_future(anext(events))
        await (await peer.next()).open_stream()
        sending = asyncio.ensure_future(outcome(connection.post_result("t1", b"{}")))
        await peer.next()
        connection.wake()
        assert (await sending).outcome is Outcome.RETRY
        await (await peer.next()).open_stream()
        again = asyncio.ensure_future(outcome(connection.post_result("t1", b"{}")))
        await (await peer.next()).answer(200)
        assert (await again).outcome is Outcome.DELIVERED
        waiting.cancel()
        await asyncio.wait([waiting])
        await events.aclose()


async def test_an_unencrypted_way_to_another_machine_is_told_aloud(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect("http://server.example"):
        pass
    assert "not encrypted" in caplog.text
    caplog.clear()
    async with connect("http://127.0.0.1:1"), connect("https://server.example"):
        pass
    assert caplog.text == ""
