"""The event stream: its bytes, what it replays, how it ends."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from starlette.types import Message, Send

from client_agent.server.database import Database
from client_agent.server.events import Event, EventLog, Replay, Subscription
from client_agent.server.settings import EventShape
from client_agent.server.streams import HEARTBEAT, EventStream, StreamRequest
from client_agent.server.wire import NULL
from tests.integration.server.harness import WAIT_S, Api, Connect, live_server, make_settings


def test_the_bytes_of_the_stream_are_framed_as_the_standard_says(api: Api) -> None:
    stream = api.stream()
    headers = stream.response.headers
    assert headers["content-type"].split(";")[0] == "text/event-stream"
    assert "no-cache" in headers["cache-control"]
    api.submit("write_file", path="a.md", content="line\r\n\n\u2028data: x")
    stream.next_event()
    pattern = rb"retry: \d+\n\nid: \d+\nevent: tool\.approval_request\ndata: \{[^\r\n]*\}\n\n"
    assert re.fullmatch(pattern, stream.raw)


def test_silence_is_filled_with_heartbeats(tmp_path: Path, connect: Connect) -> None:
    with live_server(make_settings(tmp_path, heartbeat_s=0.05)) as base_url:
        api = connect(base_url)
        stream = api.stream()
        assert [stream.next_block() for _ in range(3)] == [b": heartbeat"] * 3
        api.submit("read_file", path="a.txt")
        stream.expect("tool.execution_signal")


def test_a_client_that_was_away_gets_what_it_missed_in_order_and_once(api: Api) -> None:
    stream = api.stream()
    first = api.submit("read_file", path="0.txt")["tool_id"]
    seen = stream.expect("tool.execution_signal")
    stream.response.close()
    api.finish(first)
    missed = [api.submit("read_file", path=f"{number}.txt")["tool_id"] for number in range(150)]
    again = api.stream(seen.id)
    assert again.expect("tool.result_ack").data["tool_id"] == first
    replayed = [again.expect("tool.execution_signal") for _ in missed]
    assert [event.data["tool_id"] for event in replayed] == missed
    ids = [int(event.id) for event in replayed]
    assert ids == sorted(set(ids))
    live = api.submit("read_file", path="live.txt")["tool_id"]
    assert again.expect("tool.execution_signal").data["tool_id"] == live


@pytest.mark.parametrize("last_event_id", ["", "garbage", "-1", "999999999999", "9" * 40, "1; DROP TABLE events"])
def test_an_id_that_was_never_given_replays_all_that_is_kept(api: Api, last_event_id: str) -> None:
    finished = api.submit("read_file", path="a.txt")["tool_id"]
    api.finish(finished)
    opened = api.submit("read_file", path="b.txt")["tool_id"]
    stream = api.stream(last_event_id)
    assert stream.expect("tool.result_ack").data["tool_id"] == finished
    assert stream.expect("tool.execution_signal").data["tool_id"] == opened


def test_a_client_without_an_id_gets_what_is_open_and_nothing_settled(api: Api) -> None:
    api.finish(api.submit("read_file", path="a.txt")["tool_id"])
    api.reject(api.submit("write_file", path="a.md", content="x")["approval_id"])
    cancelled = api.submit("read_file", path="c.txt")["tool_id"]
    api.post(f"/tools/{cancelled}/cancel")
    approved = api.submit("write_file", path="b.md", content="x")
    api.approve(approved["approval_id"])
    asked = api.submit("write_file", path="c.md", content="x")
    stream = api.stream()
    assert stream.expect("tool.execution_signal").data["tool_id"] == approved["tool_id"]
    assert stream.expect("tool.approval_request").data["tool_id"] == asked["tool_id"]
    api.post("/chat/messages", {"content": "the end"})
    stream.expect("chat.message")


def test_the_signal_of_a_finished_or_cancelled_call_is_never_sent_again(api: Api) -> None:
    start = api.stream()
    finished = api.submit("read_file", path="a.txt")["tool_id"]
    before = start.expect("tool.execution_signal").id
    cancelled = api.submit("read_file", path="b.txt")["tool_id"]
    api.finish(finished)
    api.post(f"/tools/{cancelled}/cancel")
    again = api.stream(str(int(before) - 1))
    assert again.expect("tool.result_ack").data["tool_id"] == finished
    assert again.expect("tool.cancel").data["tool_id"] == cancelled


def test_old_settled_events_are_dropped_and_open_ones_kept(tmp_path: Path, connect: Connect) -> None:
    with live_server(make_settings(tmp_path, events_retained=10)) as base_url:
        api = connect(base_url)
        opened = api.submit("read_file", path="a.txt")["tool_id"]
        for number in range(140):
            api.post("/chat/messages", {"content": str(number)})
        stream = api.stream("0")
        assert stream.expect("tool.execution_signal").data["tool_id"] == opened
        oldest = int(stream.expect("chat.message").data["content"])
        assert 140 - 10 - 64 <= oldest <= 130
        numbers = [int(stream.expect("chat.message").data["content"]) for _ in range(139 - oldest)]
        assert numbers == list(range(oldest + 1, 140))


def test_every_stream_of_a_project_gets_every_event_and_other_projects_none(api: Api, connect: Connect) -> None:
    elsewhere = connect(api.base_url, api.user_id, api.project_id + "-2")
    streams, other = [api.stream() for _ in range(3)], elsewhere.stream()
    tool_id = api.submit("read_file", path="a.txt")["tool_id"]
    assert {stream.expect("tool.execution_signal").data["tool_id"] for stream in streams} == {tool_id}
    own = elsewhere.submit("read_file", path="a.txt")["tool_id"]
    assert other.expect("tool.execution_signal").data["tool_id"] == own


async def test_a_stream_that_falls_too_far_behind_is_cut_off() -> None:
    subscription = Subscription(max_events=2)
    for number in range(3):
        subscription.offer(Event(id=number, name="x", data=NULL))
    assert subscription.overflowed.is_set()
    assert [event.id for event in await subscription.take(1)] == [0, 1]
    assert subscription.ended
    assert await subscription.take(1) == []


def test_a_client_that_does_not_read_is_cut_off_and_resumes(tmp_path: Path, connect: Connect) -> None:
    with live_server(make_settings(tmp_path, stream_queue_events=5)) as base_url:
        api = connect(base_url)
        stream = api.stream()
        size, total = 400_000, 60  # more than the socket buffers of both sides hold
        for number in range(total):
            api.post("/chat/messages", {"content": f"{number} " + "x" * size})
        received = 0
        with suppress(StopIteration, requests.exceptions.ChunkedEncodingError):
            while True:
                last_id = stream.expect("chat.message").id
                received += 1
        assert 0 < received < total
        resumed = api.stream(last_id)
        assert resumed.expect("chat.message").data["content"].startswith(f"{received} ")


def test_stopping_the_server_ends_streams_and_releases_agents_at_once(tmp_path: Path, connect: Connect) -> None:
    with live_server(make_settings(tmp_path, shutdown_grace_s=60, result_timeout_s=600)) as base_url:
        api = connect(base_url)
        streams = [api.stream() for _ in range(3)]
        blocked = api.execute("read_file", path="a.txt")
        for stream in streams:
            stream.expect("tool.execution_signal")
    for stream in streams:
        stream.read_to_end()
    assert blocked.result().json()["status"] == "executing"


class BusyLog(EventLog):
    """An event is committed at the worst moment: after the stream has subscribed, before it looks what to replay."""

    async def plan_replay(self, project_id: str, last_event_id: str | None) -> Replay:
        async with self.transaction() as tx:
            await tx.append(project_id, "chat.message", {"content": "between"})
        return await super().plan_replay(project_id, last_event_id)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[BusyLog]:
    database = Database(f"sqlite:///{tmp_path / 'server.db'}")
    await database.open()
    yield BusyLog(database, retained=10, queue_events=10)
    await database.close()


async def run_stream(log: EventLog, send: Send, expires_at: float) -> None:
    """One stream without a web server around it."""
    wanted = StreamRequest(
        project_id="p",
        last_event_id="0",
        shape=EventShape.BARE,
        expires_at=expires_at,
        heartbeat_s=0.01,
        retry_ms=1,
    )

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    await asyncio.wait_for(EventStream(log, wanted)({}, receive, send), WAIT_S)


async def test_an_event_that_comes_between_subscribing_and_replay_is_sent_once(log: BusyLog) -> None:
    sent: list[bytes] = []

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))
        if sent[-1] == HEARTBEAT:  # the queue has been looked at
            log.close()

    await run_stream(log, send, expires_at=time.time() + 600)
    assert b"".join(sent).count(b"between") == 1


async def test_a_stream_ends_when_its_token_does(log: BusyLog) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await run_stream(log, send, expires_at=time.time() + 0.1)
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
