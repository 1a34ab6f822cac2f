"""The event stream against a server that is told what to do, byte by byte."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec
import pytest

from client_agent.config import Link
from client_agent.link import stream as stream_module
from client_agent.link.backoff import Backoff
from client_agent.link.connection import ServerConnection
from client_agent.link.sleep import SleepGauge
from client_agent.link.status import LinkState
from client_agent.link.stream import Received
from client_agent.protocol.messages import ApprovalRequest, Cancel, ExecutionSignal, Ignored, Malformed, ResultAck
from tests.integration.link.conftest import TOKEN
from tests.integration.link.peer import PATIENCE_S, STREAM_HEAD, Exchange, Peer

Connect = Callable[..., AbstractAsyncContextManager[ServerConnection]]
STREAM = "/my/projects/p1/chat/stream"
SIGNAL = b'{"tool_id":"t1","tool_name":"read_file","tool_params":{"path":"a"}}'


def event(number: int, name: str = "tool.result_ack", data: bytes = b'{"tool_id":"t%d"}') -> bytes:
    body = data % number if b"%d" in data else data
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, name.encode(), body)


class Listening:
    """A consumer that takes events one by one, when the test says so."""

    def __init__(self, connection: ServerConnection, last_event_id: str) -> None:
        self._events = connection.events(last_event_id)
        self._ahead: asyncio.Task[Received] | None = None

    def begin(self) -> None:
        """Asks for the next event, and does not wait for it."""
        if self._ahead is None:
            self._ahead = asyncio.ensure_future(anext(self._events))

    async def next(self) -> Received:
        self.begin()
        assert self._ahead is not None
        async with asyncio.timeout(PATIENCE_S):
            received = await self._ahead
        self._ahead = None
        return received

    async def stop(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.wait([self._ahead])
        await self._events.aclose()


@asynccontextmanager
async def listening(connection: ServerConnection, last_event_id: str = "") -> AsyncIterator[Listening]:
    consumer = Listening(connection, last_event_id)
    consumer.begin()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def reached(connection: ServerConnection, state: LinkState) -> str:
    async with asyncio.timeout(PATIENCE_S):
        return (await connection.wait_until(lambda status: status.state is state)).detail


async def test_the_request_is_what_the_protocol_says(peer: Peer, connect: Connect) -> None:
    async with connect(peer.url + "/base/", project="a/b c") as connection, listening(connection):
        request = (await peer.next()).request
    assert (request.method, request.target) == ("GET", "/base/my/projects/a%2Fb%20c/chat/stream")
    assert request.headers["authorization"] == f"Bearer {TOKEN}".encode()
    assert request.headers["accept"] == b"text/event-stream"
    assert "last-event-id" not in request.headers
    assert "cookie" not in request.headers


async def test_both_shapes_and_all_spellings_are_understood(peer: Peer, connect: Connect) -> None:
    sent = [
        event(1, "tool.execution_signal", SIGNAL),
        event(2, "tool.execute", SIGNAL),
        event(3, "message", b'{"event":"tool.execution_signal","data":' + SIGNAL + b"}"),
        event(4, "tool.approval", b'{"approval_id":"a1","tool_id":"t1","tool_name":"write_file"}'),
        event(5, "tool.approval_request", b'{"approval_id":"a1","tool_id":"t1","tool_name":"write_file"}'),
        event(6),
        event(7, "tool.cancel", b'{"tool_id":"t1","reason":"enough"}'),
        event(8, "assistant.said", b'{"text":"hello"}'),
        event(9, "tool.execute", b'{"tool_id":"t9"}'),
    ]
    kinds = [ExecutionSignal] * 3 + [ApprovalRequest] * 2 + [ResultAck, Cancel, Ignored, Malformed]
    async with connect(peer.url) as connection, listening(connection) as consumer:
        await (await peer.next()).open_stream(b"".join(sent))
        received = [await consumer.next() for _ in sent]
    assert [type(one.message) for one in received] == kinds
    assert [one.event_id for one in received] == [str(number) for number in range(1, 10)]


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_the_cuts_between_packets_do_not_matter(peer: Peer, connect: Connect, size: int) -> None:
    wire = (
        ': hello\r\n\r\nid: ö…\r\ndata: {"event":"tool.result_ack",\r\ndata: "data":{"tool_id":"t1"}}\r\n\r\n'.encode()
    )
    async with connect(peer.url) as connection, listening(connection) as consumer:
        exchange = await peer.next()
        await exchange.open_stream(*(wire[at : at + size] for at in range(0, len(wire), size)))
        received = await consumer.next()
    assert received == Received("ö…", ResultAck(tool_id="t1"))


@pytest.mark.parametrize(
    "content_type", ["text/event-stream;", "TEXT/Event-Stream ; charset=windows-1252", "text/event-stream;x=y"]
)
async def test_parameters_of_the_type_do_not_matter_and_the_text_is_utf_8(
    peer: Peer, connect: Connect, content_type: str
) -> None:
    async with connect(peer.url) as connection, listening(connection) as consumer:
        exchange = await peer.next()
        await exchange.send(f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n".encode())
        await exchange.send('event: tool.cancel\ndata: {"tool_id":"t1","reason":"genug, schön"}\n\n'.encode())
        received = await consumer.next()
    assert received.message == Cancel(tool_id="t1", reason="genug, schön")


async def test_it_says_connected_only_after_the_server_opened_a_stream(peer: Peer, connect: Connect) -> None:
    async with connect(peer.url) as connection, listening(connection) as consumer:
        exchange = await peer.next()
        assert connection.status.state is LinkState.CONNECTING
        await exchange.open_stream()
        await reached(connection, LinkState.CONNECTED)
        assert connection.status.last_byte_at is None
        await exchange.send_chunk(event(1))
        await consumer.next()
        assert connection.status.last_byte_at is not None
    assert connection.status.state is LinkState.CLOSED


async def test_a_reconnect_resumes_after_the_last_handled_event(peer: Peer, connect: Connect) -> None:
    async with connect(peer.url) as connection, listening(connection, "start") as consumer:
        first = await peer.next()
        assert first.request.headers["last-event-id"] == b"start"
        await first.open_stream(event(1) + event(2), event(3)[:-1])
        assert [(await consumer.next()).event_id for _ in range(2)] == ["1", "2"]
        consumer.begin()
        first.reset()  # but for one byte, the third was there
        second = await peer.next()
        assert second.request.headers["last-event-id"] == b"2"
        await second.open_stream(event(3))
        assert (await consumer.next()).event_id == "3"


async def test_a_block_without_data_moves_the_id_which_goes_back_as_the_bytes_it_came_in(
    peer: Peer, connect: Connect
) -> None:
    async with connect(peer.url) as connection, listening(connection):
        first = await peer.next()
        await first.open_stream("id: …ж\n\n".encode())
        await first.end()
        second = await peer.next()
    assert second.request.headers["last-event-id"] == "…ж".encode()


@pytest.mark.parametrize("bad", [b"a\x01b", b"x" * 5000, b"\x7f"])
async def test_an_id_that_no_header_can_hold_is_not_sent(peer: Peer, connect: Connect, bad: bytes) -> None:
    async with connect(peer.url) as connection, listening(connection):
        first = await peer.next()
        await first.open_stream(b"id: " + bad + b"\n\n")
        await first.end()
        second = await peer.next()
    assert "last-event-id" not in second.request.headers


async def test_an_event_cut_off_by_the_end_is_dropped_with_its_id(peer: Peer, connect: Connect) -> None:
    async with connect(peer.url) as connection, listening(connection) as consumer:
        first = await peer.next()
        await first.open_stream(event(1) + b"id: 2\ndata: {")
        assert (await consumer.next()).event_id == "1"
        consumer.begin()
        first.cut()
        second = await peer.next()
    assert second.request.headers["last-event-id"] == b"1"


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (b"204 X\r\n\r\n", LinkState.STOPPED_BY_SERVER),
        (b"205 X\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n", LinkState.NOT_A_STREAM),
        (b"200 X\r\nContent-Type: text/x-event-stream\r\nContent-Length: 2\r\n\r\n{}", LinkState.NOT_A_STREAM),
        (b"200 X\r\nContent-Length: 2\r\n\r\n{}", LinkState.NOT_A_STREAM),
        (b"401 X\r\nContent-Length: 0\r\n\r\n", LinkState.UNAUTHORIZED),
        (b"403 X\r\nContent-Length: 0\r\n\r\n", LinkState.FORBIDDEN),
        (b"404 X\r\nContent-Length: 0\r\n\r\n", LinkState.NO_SUCH_PROJECT),
        (b"410 X\r\nContent-Length: 0\r\n\r\n", LinkState.NO_SUCH_PROJECT),
        (b"429 X\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n", LinkState.RETRYING),
        (b"503 X\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n", LinkState.RETRYING),
        (b"no status at all\r\n\r\n", LinkState.RETRYING),
        (STREAM_HEAD.removeprefix(b"HTTP/1.1 ") + b"not a chunk\r\n", LinkState.RETRYING),
        (STREAM_HEAD.removeprefix(b"HTTP/1.1 ") + b"0\r\n\r\n", LinkState.RETRYING),
    ],
)
async def test_after_any_answer_the_status_is_true_and_it_tries_again(
    peer: Peer, connect: Connect, answer: bytes, state: LinkState
) -> None:
    async with connect(peer.url) as connection, listening(connection) as consumer:
        exchange = await peer.next()
        await exchange.send(b"HTTP/1.1 " + answer)
        exchange.cut()
        await reached(connection, state)
        again = await peer.next()
        assert connection.status.state is state
        await again.open_stream(event(1))
        assert (await consumer.next()).event_id == "1"
        assert connection.status.state is LinkState.CONNECTED


@pytest.mark.parametrize("garbage", [b"not a chunk\r\n", b"-5\r\nabcde\r\n", b"5\r\nabcdefgh\r\n", b"\xff" * 20_000])
async def test_broken_framing_in_the_middle_is_only_a_lost_connection(
    peer: Peer, connect: Connect, settings: Link, garbage: bytes
) -> None:
    # aiohttp may close the connection without waking who reads it: then the heartbeat deadline finds out.
    link = msgspec.structs.replace(settings, heartbeat_deadline_s=0.3)
    async with connect(peer.url, link) as connection, listening(connection) as consumer:
        first = await peer.next()
        await first.open_stream(event(1))
        await consumer.next()
        consumer.begin()
        await first.send(garbage)
        second = await peer.next()
        assert second.request.headers["last-event-id"] == b"1"
        await second.open_stream(event(2))
        assert (await consumer.next()).event_id == "2"


async def test_a_refused_token_is_read_again_and_tried_once(peer: Peer, connect: Connect, env: dict[str, str]) -> None:
    async with connect(peer.url) as connection, listening(connection):
        env["CLIENT_AGENT_TOKEN"] = "secret-token-2"
        await (await peer.next()).answer(401)
        second = await peer.next()
        assert second.request.headers["authorization"] == b"Bearer secret-token-2"
        assert connection.status.state is LinkState.RETRYING
        await second.answer(401)
        await reached(connection, LinkState.UNAUTHORIZED)
        env["CLIENT_AGENT_TOKEN"] = "secret-token-3"
        while (third := await peer.next()).request.headers["authorization"] != b"Bearer secret-token-3":
            await third.answer(401)
        await third.open_stream()
        await reached(connection, LinkState.CONNECTED)


async def test_without_a_token_nothing_is_sent_until_there_is_one(
    peer: Peer, connect: Connect, env: dict[str, str]
) -> None:
    del env["CLIENT_AGENT_TOKEN"]
    async with connect(peer.url) as connection, listening(connection):
        assert "CLIENT_AGENT_TOKEN" in await reached(connection, LinkState.UNAUTHORIZED)
        assert peer.connections == 0
        env["CLIENT_AGENT_TOKEN"] = TOKEN
        request = (await peer.next()).request
    assert request.headers["authorization"] == f"Bearer {TOKEN}".encode()


async def test_what_the_server_says_of_the_token_is_not_repeated(
    peer: Peer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connect(peer.url) as connection, listening(connection):
        await (await peer.next()).answer(403, f"go away, {TOKEN}\x1b[31m!".encode())
        assert await reached(connection, LinkState.FORBIDDEN) == "the server answered 403: go away, *** [31m!"
    assert TOKEN not in caplog.text


async def test_a_named_time_is_waited_for(peer: Peer, connect: Connect) -> None:
    async with connect(peer.url) as connection, listening(connection):
        await (await peer.next()).answer(503, Retry_After="1800")
        await reached(connection, LinkState.RETRYING)
        status = connection.status
        assert status.retry_at is not None
        assert 1790 < (status.retry_at - status.since).total_seconds() <= 1800
        connection.wake()
        await (await peer.next()).open_stream()
        await reached(connection, LinkState.CONNECTED)


async def test_the_servers_retry_is_the_least_wait(peer: Peer, connect: Connect, settings: Link) -> None:
    link = msgspec.structs.replace(settings, reconnect_max_s=500)
    async with connect(peer.url, link) as connection, listening(connection):
        exchange = await peer.next()
        await exchange.open_stream(b"retry: 400000\n\n")
        await exchange.end()
        await reached(connection, LinkState.RETRYING)
        status = connection.status
        assert status.retry_at is not None
        assert 399 < (status.retry_at - status.since).total_seconds() <= 500


async def test_a_silent_connection_is_given_up(peer: Peer, connect: Connect, settings: Link) -> None:
    link = msgspec.structs.replace(settings, heartbeat_deadline_s=0.3)
    async with connect(peer.url, link) as connection, listening(connection):
        first = await peer.next()
        await first.open_stream(b": heartbeat\n\n")
        await first.hung_up()
        await peer.next()
        assert "nothing heard" in connection.status.detail


async def test_an_answer_that_never_comes_is_given_up(peer: Peer, connect: Connect, settings: Link) -> None:
    link = msgspec.structs.replace(settings, heartbeat_deadline_s=0.3)
    async with connect(peer.url, link) as connection, listening(connection):
        await (await peer.next()).hung_up()
        await peer.next()


async def test_heartbeats_keep_a_quiet_stream_open(peer: Peer, connect: Connect, settings: Link) -> None:
    link = msgspec.structs.replace(settings, heartbeat_deadline_s=0.5)
    async with connect(peer.url, link) as connection, listening(connection) as consumer:
        exchange = await peer.next()
        await exchange.open_stream()
        for byte in b": slow but alive" * 2:
            await exchange.send_chunk(bytes([byte]))
            await asyncio.sleep(0.03)  # together longer than the deadline
        await exchange.send_chunk(b"\n\n" + event(1))
        assert (await consumer.next()).event_id == "1"
    assert peer.connections == 1


async def test_waking_from_sleep_connects_anew_at_once(peer: Peer, connect: Connect) -> None:
    wall = 1000.0
    gauge = SleepGauge(wall_clock=lambda: wall, monotonic=lambda: 0.0, tick_s=0.01)
    async with connect(peer.url, sleep_gauge=gauge) as connection, listening(connection) as consumer:
        first = await peer.next()
        await first.open_stream(event(1))
        await consumer.next()
        consumer.begin()
        wall += 3600
        await first.hung_up()
        second = await peer.next()
        assert second.request.headers["last-event-id"] == b"1"
        await second.open_stream()
        await reached(connection, LinkState.CONNECTED)


async def test_waking_while_the_consumer_is_busy_takes_effect_when_it_comes_back(peer: Peer, connect: Connect) -> None:
    async with connect(peer.url) as connection, listening(connection) as consumer:
        first = await peer.next()
        await first.open_stream(event(1))
        await consumer.next()
        connection.wake()
        connection.wake()
        consumer.begin()
        await first.hung_up()
        await peer.next()


async def test_an_event_over_the_limit_is_told_and_passed_by(
    peer: Peer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "MAX_EVENT_BYTES", 1000)
    async with connect(peer.url) as connection, listening(connection) as consumer:
        first = await peer.next()
        await first.open_stream(event(1) + b"id: 2\nevent: tool.execute\ndata: " + b"x" * 2000)
        assert (await consumer.next()).event_id == "1"
        received = await consumer.next()
        assert received.event_id == "2"
        assert isinstance(received.message, Malformed)
        consumer.begin()
        second = await peer.next()
        assert second.request.headers["last-event-id"] == b"2"
        assert "larger than 1000" in connection.status.detail


async def test_one_without_an_id_keeps_the_place_of_the_event_before_it(
    peer: Peer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "MAX_EVENT_BYTES", 1000)
    async with connect(peer.url) as connection, listening(connection) as consumer:
        first = await peer.next()
        await first.open_stream(event(1) + b"data: " + b"x" * 2000)
        assert (await consumer.next()).event_id == "1"
        consumer.begin()
        second = await peer.next()
    assert second.request.headers["last-event-id"] == b"1"


@pytest.mark.parametrize("head", [b"id: 2\nevent: tool.execute\ndata: ", b"event: tool.execute\ndata: ", b"data: "])
async def test_whoever_sent_one_over_the_limit_can_be_answered(
    peer: Peer, connect: Connect, monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    monkeypatch.setattr(stream_module, "MAX_EVENT_BYTES", 1000)
    signal = b'{"tool_id": "t1", "tool_name": "read_file", "tool_params": {"path": "'
    wrapped = signal if b"event" in head else b'{"event": "tool.execute", "data": ' + signal
    async with connect(peer.url) as connection, listening(connection) as consumer:
        first = await peer.next()
        await first.open_stream(event(1) + head + wrapped + b"x" * 2000)
        await consumer.next()
        received = await consumer.next()
        assert received.event_id == ("2" if b"id" in head else "1")
        assert isinstance(received.message, Malformed)
        assert (received.message.name, received.message.tool_id) == ("tool.execute", "t1")


class RecordedBackoff(Backoff):
    """Notes how long it would have waited, and does not."""

    def __init__(self, cap_s: float) -> None:
        super().__init__(cap_s, random=lambda: 1.0)
        self.waits: list[float] = []

    def next_s(self, floor_s: float = 0.0) -> float:
        self.waits.append(super().next_s(floor_s))
        return 0.0


@pytest.fixture
def backoff(monkeypatch: pytest.MonkeyPatch) -> RecordedBackoff:
    recorded = RecordedBackoff(60)
    monkeypatch.setattr(stream_module, "Backoff", lambda cap_s: recorded)
    return recorded


async def test_only_a_connection_that_brought_an_event_ends_the_backoff(
    peer: Peer, connect: Connect, backoff: RecordedBackoff
) -> None:
    async with connect(peer.url) as connection, listening(connection) as consumer:
        for _ in range(2):
            await (await peer.next()).answer(503)
        empty = await peer.next()  # opened and ended: a server that does this all the time is not well
        await empty.open_stream(b": heartbeat\n\n")
        await empty.end()
        good = await peer.next()
        await good.open_stream(event(1))
        await consumer.next()
        consumer.begin()
        await good.end()
        await peer.next()
    assert backoff.waits == [1, 2, 4, 1]


async def test_a_connection_that_lasted_ends_the_backoff_without_an_event(
    peer: Peer, connect: Connect, backoff: RecordedBackoff, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "STABLE_S", 0.0)
    async with connect(peer.url) as connection, listening(connection):
        for _ in range(2):
            await (await peer.next()).answer(503)
        quiet = await peer.next()
        await quiet.open_stream()
        await quiet.end()
        await peer.next()
    assert backoff.waits == [1, 2, 1]


async def test_a_slow_consumer_holds_the_server_back(peer: Peer, connect: Connect) -> None:
    block = event(1, data=b'{"tool_id":"t1","padding":"' + b"x" * 60_000 + b'"}')
    async with connect(peer.url) as connection, listening(connection) as consumer:
        exchange = await peer.next()
        await exchange.open_stream(block)
        await consumer.next()
        sending = asyncio.ensure_future(send_again_and_again(exchange, block))
        await asyncio.wait([sending], timeout=1)
        assert not sending.done()  # 60 MB that nobody asks for do not fit into any buffer on the way
        sending.cancel()
        await asyncio.wait([sending])


async def send_again_and_again(exchange: Exchange, block: bytes) -> None:
    for _ in range(1000):
        await exchange.send_chunk(block)


async def test_a_stopped_consumer_leaves_no_connection(peer: Peer, connect: Connect) -> None:
    async with connect(peer.url) as connection:
        async with listening(connection) as consumer:
            exchange = await peer.next()
            await exchange.open_stream(event(1))
            await consumer.next()
        await exchange.hung_up()


async def test_a_server_that_is_not_there_is_tried_until_it_is(connect: Connect) -> None:
    async with Peer() as gone:
        pass
    async with connect(gone.url) as connection, listening(connection):
        assert str(gone.port) in await reached(connection, LinkState.RETRYING)


async def test_a_compressed_stream_is_read_too(peer: Peer, connect: Connect) -> None:
    import zlib

    packer = zlib.compressobj(wbits=31)
    async with connect(peer.url) as connection, listening(connection) as consumer:
        exchange = await peer.next()
        assert exchange.request.headers["accept-encoding"] == b"identity"
        await exchange.send(STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"))
        await exchange.send_chunk(packer.compress(event(1)) + packer.flush(zlib.Z_SYNC_FLUSH))
        assert (await consumer.next()).event_id == "1"
