"""A server that was taken over: signals nobody approved, replays, conflicts, other users, nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from client_agent.approvals.questions import Answer, Outcome
from client_agent.server.auth import issue_token
from tests.integration.daemon.conftest import PROJECT, SECRET, USER, World


class RogueServer:
    """Sends what it is told to, and keeps what is posted."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[bytes] = asyncio.Queue()
        self.posts: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self._number = 0

    def send(self, event: str, **data: Any) -> None:
        self._number += 1
        self.events.put_nowait(f"id: {self._number}\nevent: {event}\ndata: {json.dumps(data)}\n\n".encode())

    def signal(self, tool_id: str, tool: str, user_id: str | None = USER, **params: Any) -> None:
        self.send("tool.execution_signal", tool_id=tool_id, tool_name=tool, tool_params=params, user_id=user_id)

    async def result(self) -> tuple[str, dict[str, Any]]:
        async with asyncio.timeout(20):
            return await self.posts.get()

    @property
    def app(self) -> Starlette:
        async def stream(request: Request) -> StreamingResponse:
            async def body() -> AsyncIterator[bytes]:
                while True:
                    yield await self.events.get()

            return StreamingResponse(body(), media_type="text/event-stream")

        async def take(request: Request) -> Response:
            self.posts.put_nowait((request.url.path.removeprefix(f"/my/projects/{PROJECT}"), await request.json()))
            return JSONResponse({"success": True})

        return Starlette(
            routes=[
                Route("/my/projects/{p}/chat/stream", stream),
                Route("/my/projects/{p}/tools/{t}/result", take, methods=["POST"]),
                Route("/my/projects/{p}/approvals/{a}/{what}", take, methods=["POST"]),
            ]
        )


@contextlib.asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[str]:
    import socket

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1, ws="none"))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await asyncio.wait([task], timeout=5)
        listener.close()


@pytest.fixture
async def rogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[RogueServer, World]]:
    monkeypatch.setenv("CLIENT_AGENT_TOKEN", issue_token(SECRET, USER))
    monkeypatch.setenv("CLIENT_AGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CLIENT_AGENT_CONFIG", str(tmp_path / "none.toml"))
    server = RogueServer()
    async with serving(server.app) as url:
        world = World(url, tmp_path, None)  # type: ignore[arg-type]
        async with world.running_daemon():
            yield server, world


Rogue = tuple[RogueServer, World]


async def test_a_signal_nobody_approved_gets_the_users_dialog(rogue: Rogue) -> None:
    server, world = rogue
    world.person.says = Answer(outcome=Outcome.REJECTED, by="person")
    server.signal("t1", "write_file", path="a.md", content="x")
    path, body = await server.result()
    assert path == "/tools/t1/result"
    assert body["status"] == "failed"
    assert body["result"]["error"]["code"] == "rejected_by_user"
    assert len(world.person.asked) == 1
    assert not (world.root / "a.md").exists()


async def test_a_rejected_call_stays_rejected_when_it_is_sent_again(rogue: Rogue) -> None:
    server, world = rogue
    world.person.says = Answer(outcome=Outcome.REJECTED, by="person")
    server.signal("t1", "write_file", path="a.md", content="x")
    await server.result()
    world.person.says = Answer(outcome=Outcome.APPROVED, by="person")
    server.signal("t1", "write_file", path="a.md", content="x")
    _, body = await server.result()
    assert body["result"]["error"]["code"] == "rejected_by_user"
    assert len(world.person.asked) == 1
    assert not (world.root / "a.md").exists()


async def test_a_call_sent_ten_times_is_carried_out_once(rogue: Rogue) -> None:
    server, world = rogue
    for _ in range(10):
        server.signal("t1", "write_file", path="a.md", content="x\n", mode="append")
    for _ in range(1):
        _, body = await server.result()
        assert body["status"] == "completed"
    server.signal("t2", "read_file", path="a.md")
    async with asyncio.timeout(20):
        while True:
            path, body = await server.result()
            if path == "/tools/t2/result":
                break
    assert body["result"]["content"] == "x\n"
    assert len(world.person.asked) == 1


async def test_the_same_id_with_other_parameters_is_a_conflict(rogue: Rogue) -> None:
    server, world = rogue
    server.signal("t1", "write_file", path="a.md", content="good")
    await server.result()
    server.signal("t1", "write_file", path="b.md", content="evil")
    _, body = await server.result()
    assert body["result"]["error"]["code"] == "conflict"
    assert not (world.root / "b.md").exists()


REQUEST = {"approval_id": "ap", "tool_id": "t1", "tool_name": "write_file", "risk_level": "LOW"}
GOOD, EVIL = {"path": "a.md", "content": "good"}, {"path": "a.md", "content": "evil"}


async def test_parameters_changed_after_the_approval_are_asked_about_again(rogue: Rogue) -> None:
    server, world = rogue
    server.send("tool.approval_request", **REQUEST, tool_params=GOOD)
    assert await server.result() == ("/approvals/ap/approve", {"decision": "approved"})
    world.person.says = Answer(outcome=Outcome.REJECTED, reason="not this", by="person")
    server.signal("t1", "write_file", **EVIL)
    path, body = await server.result()
    assert (path, body["result"]["error"]["code"]) == ("/tools/t1/result", "rejected_by_user")
    assert [question.call.tool_params for question in world.person.asked] == [GOOD, EVIL]
    assert not (world.root / "a.md").exists()
    world.person.says = Answer(outcome=Outcome.APPROVED, by="person")
    server.signal("t1", "write_file", **GOOD)  # what was once approved is void
    _, body = await server.result()
    assert body["result"]["error"]["code"] == "conflict"
    assert not (world.root / "a.md").exists()


async def test_other_parameters_signalled_while_the_question_is_open_take_its_place(rogue: Rogue) -> None:
    server, world = rogue
    world.person.says = None
    server.send("tool.approval_request", **REQUEST, tool_params=GOOD)
    async with asyncio.timeout(20):
        await world.person.was_asked.wait()
        world.person.was_asked.clear()
        server.signal("t1", "write_file", **EVIL)
        await world.person.was_asked.wait()
    assert world.person.answers[0].outcome is Outcome.WITHDRAWN
    assert [question.call.tool_params for question in world.broker.open_questions] == [EVIL]
    assert world.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
    path, body = await server.result()
    assert (path, body["status"]) == ("/tools/t1/result", "completed")
    assert (world.root / "a.md").read_text() == "evil"


async def test_a_file_that_changes_between_the_answer_and_the_signal_is_not_written_over(rogue: Rogue) -> None:
    server, world = rogue
    (world.root / "a.md").write_text("old")
    server.send("tool.approval_request", **REQUEST, tool_params=GOOD)
    assert await server.result() == ("/approvals/ap/approve", {"decision": "approved"})
    (world.root / "a.md").write_text("mine")
    server.signal("t1", "write_file", **GOOD)
    _, body = await server.result()
    assert body["result"]["error"]["code"] == "approval_lapsed"
    assert (world.root / "a.md").read_text() == "mine"


async def test_a_file_that_changes_while_the_question_is_open_is_shown_again(rogue: Rogue) -> None:
    server, world = rogue
    (world.root / "a.md").write_text("old")
    world.person.says = None
    server.signal("t1", "write_file", **GOOD)
    async with asyncio.timeout(20):
        await world.person.was_asked.wait()
        world.person.was_asked.clear()
        (world.root / "a.md").write_text("mine")
        world.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
        await world.person.was_asked.wait()
    first, second = world.person.asked
    assert ("-old" in first.change, "-mine" in second.change) == (True, True)
    assert first.binding != second.binding
    world.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
    _, body = await server.result()
    assert body["status"] == "completed"


async def test_another_users_call_is_refused(rogue: Rogue) -> None:
    server, world = rogue
    (world.root / "a.txt").write_text("x")
    server.signal("t1", "read_file", user_id="somebody-else", path="a.txt")
    _, body = await server.result()
    assert body["result"]["error"]["code"] == "other_user"


async def test_the_servers_word_cannot_lower_the_risk_but_can_raise_it(rogue: Rogue) -> None:
    server, world = rogue
    (world.root / "a.txt").write_text("x")
    params = {"path": "a.txt"}
    server.send("tool.execution_signal", tool_id="t1", tool_name="read_file", tool_params=params, risk_level="HIGH")
    _, body = await server.result()
    assert body["status"] == "completed"
    assert [q.decision.risk.name for q in world.person.asked] == ["HIGH"]
    params = {"path": "a.sh", "content": "x"}
    server.send("tool.execution_signal", tool_id="t2", tool_name="write_file", tool_params=params, risk_level="LOW")
    await server.result()
    assert [q.decision.risk.name for q in world.person.asked] == ["HIGH", "HIGH"]


async def test_a_malformed_signal_is_answered_where_its_id_can_be_read(rogue: Rogue) -> None:
    server, _ = rogue
    server.send("tool.execution_signal", tool_id="x" * 1_000_000, tool_name="read_file", tool_params={})
    server.send("tool.execution_signal", tool_id="../../evil", tool_name="read_file", tool_params={})
    server.send("nonsense", a=1)
    server.send("tool.execution_signal", tool_id="t1", tool_name="read_file")
    path, body = await server.result()
    assert path == "/tools/t1/result"
    assert body["result"]["error"]["code"] == "malformed_event"


@pytest.mark.parametrize("value", [r'"\ud800"', "NaN", "[" * 100_000, '"cut'])
async def test_what_no_parser_takes_is_answered_all_the_same(rogue: Rogue, value: str) -> None:
    server, world = rogue
    (world.root / "a.txt").write_text("x")
    start = '{"tool_id": "t1", "tool_name": "read_file", "tool_params": {"path": '
    server.events.put_nowait(f"event: tool.execute\ndata: {start}{value}}}}}\n\n".encode())
    path, body = await server.result()
    assert (path, body["status"]) == ("/tools/t1/result", "failed")
    assert body["result"]["error"]["code"] == "malformed_event"
    server.signal("t2", "read_file", path="a.txt")
    path, body = await server.result()
    assert (path, body["status"]) == ("/tools/t2/result", "completed")


async def test_a_broken_acknowledgement_takes_no_result_back(rogue: Rogue) -> None:
    server, world = rogue
    (world.root / "a.txt").write_text("x")
    server.signal("t1", "read_file", path="a.txt")
    _, body = await server.result()
    assert body["status"] == "completed"
    server.send("tool.result_ack", tool_id="t1", status=7)
    server.signal("t2", "read_file", path="a.txt")
    path, _ = await server.result()
    assert path == "/tools/t2/result"


async def test_a_request_without_parameters_approves_nothing(rogue: Rogue) -> None:
    server, world = rogue
    server.send("tool.approval", approval_id="ap", tool_id="t1", tool_name="write_file", risk_level="MEDIUM")
    server.signal("t1", "write_file", path="a.md", content="x")
    while True:
        path, body = await server.result()
        if path == "/tools/t1/result":
            break
    assert body["status"] == "completed"
    assert world.person.asked[-1].call.tool_params == {"path": "a.md", "content": "x"}
