"""Results reach the server whatever it answers: kept, tried again, shortened, or set aside and shown."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from client_agent import config
from client_agent.journal.journal import Journal
from client_agent.journal.ledger import Ledger
from client_agent.journal.records import PostState
from client_agent.link import delivery
from client_agent.link.connection import ServerConnection
from client_agent.link.credentials import Credentials
from client_agent.link.delivery import Courier, shorten
from client_agent.protocol.calls import Call
from client_agent.protocol.results import completed
from client_agent.protocol.states import CallState
from tests.integration.daemon.test_untrusted_server import serving


class Counter:
    """A server that answers each post as the script says, and keeps the bodies."""

    def __init__(self, answer: Callable[[int, bytes], Response]) -> None:
        self._answer = answer
        self.bodies: list[bytes] = []

    @property
    def app(self) -> Starlette:
        async def take(request: Request) -> Response:
            body = await request.body()
            self.bodies.append(body)
            return self._answer(len(self.bodies), body)

        return Starlette(routes=[Route("/my/projects/p/{rest:path}", take, methods=["POST"])])


@contextlib.asynccontextmanager
async def delivering(counter: Counter, tmp_path: Path) -> AsyncIterator[Ledger]:
    journal = Journal(tmp_path / "state")
    try:
        async with serving(counter.app) as url:
            credentials = Credentials(url, tmp_path / "state", env={"CLIENT_AGENT_TOKEN": "t"})
            async with ServerConnection(config.Link(), url, "p", credentials) as connection:
                ledger = journal.recover("w").ledger
                task = asyncio.create_task(Courier(ledger.outbox, connection).run())
                try:
                    yield ledger
                finally:
                    task.cancel()
                    await asyncio.wait([task])
    finally:
        journal.close()


async def finish(ledger: Ledger, tool_id: str, output: dict[str, object]) -> None:
    call = Call(tool_id=tool_id, tool_name="read_file", tool_params={"path": "a"})
    ledger.admit(call, effects=False)
    body = msgspec.json.encode(completed(output).to_wire())
    await ledger.finish(tool_id, CallState.FAILED, body)


async def emptied(ledger: Ledger) -> None:
    async with asyncio.timeout(20):
        while len(ledger.outbox):
            await asyncio.sleep(0.01)


async def test_a_result_is_posted_once_when_the_server_takes_it(tmp_path: Path) -> None:
    counter = Counter(lambda n, body: Response(status_code=200))
    async with delivering(counter, tmp_path) as ledger:
        await finish(ledger, "t1", {"content": "x"})
        await emptied(ledger)
    assert [json.loads(body)["result"]["content"] for body in counter.bodies] == ["x"]


async def test_a_failing_server_is_tried_again_until_it_takes_it(tmp_path: Path, monkeypatch: object) -> None:
    counter = Counter(lambda n, body: Response(status_code=500 if n < 3 else 200))
    retry, delivery.RETRY_MIN_S = delivery.RETRY_MIN_S, 0.01
    ceiling, delivery.RETRY_MAX_S = delivery.RETRY_MAX_S, 0.02
    try:
        async with delivering(counter, tmp_path) as ledger:
            await finish(ledger, "t1", {})
            await emptied(ledger)
    finally:
        delivery.RETRY_MIN_S, delivery.RETRY_MAX_S = retry, ceiling
    assert len(counter.bodies) == 3


async def test_one_result_that_fails_holds_up_no_other(tmp_path: Path) -> None:
    counter = Counter(lambda n, body: Response(status_code=500 if b"bad" in body else 200))
    async with delivering(counter, tmp_path) as ledger:
        await finish(ledger, "t0", {"content": "bad"})
        for number in range(100):
            await finish(ledger, f"t{number + 1}", {"content": "good"})
        async with asyncio.timeout(20):
            while len(ledger.outbox) > 1:
                await asyncio.sleep(0.01)


async def test_what_the_server_will_never_take_is_set_aside(tmp_path: Path) -> None:
    counter = Counter(lambda n, body: Response("gone", status_code=404))
    async with delivering(counter, tmp_path) as ledger:
        await finish(ledger, "t1", {})
        await emptied(ledger)
    from client_agent.journal.reader import reading

    with reading(tmp_path / "state") as reader:
        (post,) = reader.posts_not_delivered()
    assert (post.state, post.target) == (PostState.DEAD, "t1")
    assert "404" in (post.problem or "")


async def test_a_result_that_is_too_large_is_sent_once_more_shortened(tmp_path: Path) -> None:
    counter = Counter(lambda n, body: Response(status_code=413 if len(body) > 100_000 else 200))
    async with delivering(counter, tmp_path) as ledger:
        await finish(ledger, "t1", {"content": "a" * 60_000 + "b" * 60_000})
        await emptied(ledger)
    assert len(counter.bodies) == 2
    result = json.loads(counter.bodies[1])["result"]
    assert result["truncated"] is True
    assert result["content"].startswith("a")
    assert result["content"].endswith("b")
    assert "70000 characters left out" in result["content"]


async def test_a_result_that_stays_too_large_is_set_aside(tmp_path: Path) -> None:
    counter = Counter(lambda n, body: Response(status_code=413))
    async with delivering(counter, tmp_path) as ledger:
        await finish(ledger, "t1", {"content": "x"})
        await emptied(ledger)
    assert len(counter.bodies) == 2


def test_a_shortened_listing_keeps_its_beginning() -> None:
    body = msgspec.json.encode(completed({"files": list(range(500)), "size": 7}).to_wire())
    result = json.loads(shorten(body))["result"]
    assert (len(result["files"]), result["size"], result["truncated"]) == (100, 7, True)
