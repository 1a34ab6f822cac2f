"""More than anybody can take at once: memory stays bounded, and what is quick stays quick."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import psutil

from client_agent import intake
from client_agent.conformance.peer import Peer, Request
from client_agent.journal.ledger import MAX_BACKLOG
from client_agent.server.auth import issue_token
from client_agent.workspace_agent import WorkspaceAgent
from tests.integration.reliability.conftest import PROJECT, SECRET, USER, Laptop

TOKEN = issue_token(SECRET, USER)


def signal(number: int, tool: str, **params: Any) -> bytes:
    data = {"tool_id": f"{tool}-{number}", "tool_name": tool, "tool_params": params}
    return f"id: {number + 1}\nevent: tool.execution_signal\ndata: {json.dumps(data)}\n\n".encode()


def is_result(prefix: str) -> Any:
    return lambda post: f"/tools/{prefix}" in post.path


@contextlib.asynccontextmanager
async def flooded(laptop: Laptop, monkeypatch: Any) -> AsyncIterator[tuple[Peer, WorkspaceAgent]]:
    monkeypatch.setenv("CLIENT_AGENT_TOKEN", TOKEN)
    async with Peer(PROJECT, TOKEN) as peer, laptop.running(peer.url, heartbeat_deadline_s=30) as daemon:
        await peer.wait_for_stream(20)
        yield peer, daemon


class Watch:
    """The highest figures seen while it looks."""

    def __init__(self, daemon: WorkspaceAgent) -> None:
        self._daemon = daemon
        self.calls = self.backlog = self.rss = 0

    async def look(self) -> None:
        while True:
            self.calls = max(self.calls, self._daemon.calls_open)
            self.backlog = max(self.backlog, self._daemon._journal._writer.backlog)
            self.rss = max(self.rss, psutil.Process().memory_info().rss)
            await asyncio.sleep(0.01)


async def test_a_backlog_of_ten_thousand_signals_is_worked_off_within_bounds(laptop: Laptop, monkeypatch: Any) -> None:
    monkeypatch.setattr(intake, "MAX_OPEN_CALLS", 200)
    (laptop.root / "a.txt").write_text("x")
    count = 10_000
    async with flooded(laptop, monkeypatch) as (peer, daemon):
        watch = Watch(daemon)
        looking = asyncio.create_task(watch.look())
        before = psutil.Process().memory_info().rss
        for start in range(0, count, 500):
            await peer.stream.send(b"".join(signal(n, "read_file", path="a.txt") for n in range(start, start + 500)))
        results = await peer.wait_for_posts(is_result("read_file"), count, 120)
        looking.cancel()
        async with asyncio.timeout(20):
            while daemon._ledger.last_event_id != str(count) or daemon._intake.calls or len(daemon._ledger.outbox):
                await asyncio.sleep(0.05)
    assert len({post.path for post in results}) == count
    assert 0 < watch.calls <= 200
    assert watch.backlog < MAX_BACKLOG
    assert watch.rss - before < 150_000_000


async def test_a_flood_of_a_thousand_questions_holds_up_no_read_and_no_cancel(laptop: Laptop, monkeypatch: Any) -> None:
    laptop.person.answers = False
    (laptop.root / "a.txt").write_text("x")
    count = 1000
    async with flooded(laptop, monkeypatch) as (peer, daemon):
        writes = [signal(n, "write_file", path=f"{n}.md", content="x") for n in range(count)]
        await peer.stream.send(b"".join(writes))
        await peer.stream.send(signal(count, "read_file", path="a.txt"))
        (read,) = await peer.wait_for_posts(is_result("read_file"), 1, 30)
        assert read.json()["status"] == "completed"
        async with asyncio.timeout(30):
            while len(laptop.broker.open_questions) < count:
                await asyncio.sleep(0.05)
        for number in range(count):
            cancel = f'id: c{number}\nevent: tool.cancel\ndata: {{"tool_id":"write_file-{number}"}}\n\n'
            await peer.stream.send(cancel.encode())
        ended = await peer.wait_for_posts(is_result("write_file"), count, 60)
        async with asyncio.timeout(20):
            while daemon._intake.calls:
                await asyncio.sleep(0.02)
    assert laptop.broker.open_questions == []
    assert {code(post) for post in ended} == {"cancelled"}
    assert not list(laptop.root.glob("*.md"))


def code(post: Request) -> str:
    return str(post.json()["result"]["error"]["code"])


async def test_what_is_approved_and_then_cancelled_is_let_go(laptop: Laptop, monkeypatch: Any) -> None:
    async with flooded(laptop, monkeypatch) as (peer, daemon):
        asked = {"approval_id": "ap", "tool_id": "t", "tool_name": "write_file", "risk_level": "MEDIUM"}
        asked["tool_params"] = {"path": "a.md", "content": "x"}  # type: ignore[assignment]
        await peer.stream.send(f"id: 1\nevent: tool.approval_request\ndata: {json.dumps(asked)}\n\n".encode())
        await peer.wait_for_posts(lambda post: post.path.endswith("/ap/approve"), 1, 20)
        assert set(daemon._intake.calls) == {"t"}
        await peer.stream.send(b'id: 2\nevent: tool.cancel\ndata: {"tool_id":"t","reason":"changed my mind"}\n\n')
        async with asyncio.timeout(20):
            while daemon._intake.calls:
                await asyncio.sleep(0.02)
        record = daemon._ledger.find("t")
        assert record is not None
        assert (record.state, record.failure_code) == ("FAILED", "cancelled")
        data = {key: asked[key] for key in ("tool_id", "tool_name", "tool_params")}
        await peer.stream.send(f"id: 3\nevent: tool.execution_signal\ndata: {json.dumps(data)}\n\n".encode())
        (late,) = await peer.wait_for_posts(is_result("t/"), 1, 20)
    assert late.json()["status"] == "failed"
    assert not (laptop.root / "a.md").exists()


async def test_a_yes_outlives_any_number_of_restarts(laptop: Laptop, monkeypatch: Any) -> None:
    monkeypatch.setenv("CLIENT_AGENT_TOKEN", TOKEN)
    call = {"tool_id": "t", "tool_name": "write_file", "tool_params": {"path": "a.md", "content": "x"}}
    asked = json.dumps({**call, "approval_id": "ap", "risk_level": "MEDIUM"})
    async with Peer(PROJECT, TOKEN) as peer:
        async with laptop.running(peer.url):
            await peer.stream.send(f"id: 1\nevent: tool.approval_request\ndata: {asked}\n\n".encode())
            await peer.wait_for_posts(lambda post: post.path.endswith("/ap/approve"), 1, 20)
        for _ in range(2):
            async with laptop.running(peer.url) as daemon:
                assert set(daemon._intake.calls) == {"t"}
        async with laptop.running(peer.url):
            await peer.stream.send(f"id: 2\nevent: tool.execution_signal\ndata: {json.dumps(call)}\n\n".encode())
            (result,) = await peer.wait_for_posts(is_result("t/"), 1, 20)
    assert result.json()["status"] == "completed", result.json()
    assert len(laptop.person.asked) == 1
