"""Results reach the server whatever it answers: kept, tried again, shortened, or set aside and shown."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from client_agent import config
from client_agent.journal.journal import Journal
from client_agent.journal.ledger import Ledger
from client_agent.journal.records import PostState
from client_agent.link import delivery
from client_agent.link.connection import ServerConnection
from client_agent.link.credentials import Credentials
from client_agent.link.delivery import BATCHED_MAX_BYTES, IN_FLIGHT, Courier, shorten
from client_agent.link.status import LinkState
from client_agent.protocol import batches
from client_agent.protocol.calls import Call
from client_agent.protocol.results import completed
from client_agent.protocol.states import CallState
from tests.integration.daemon.test_untrusted_server import serving


class Counter:
    """A server that answers each post as the script says, and keeps the bodies. It may offer to take batches."""

    def __init__(self, answer: Callable[[int, bytes], Response], *, offers: str | None = None) -> None:
        self._answer = answer
        self.offers = offers
        self.bodies: list[bytes] = []
        self.posts: list[tuple[str, bytes]] = []  # address and body

    @property
    def app(self) -> Starlette:
        async def take(request: Request) -> Response:
            body = await request.body()
            self.bodies.append(body)
            self.posts.append((request.path_params["rest"], body))
            return self._answer(len(self.bodies), body)

        async def stream(request: Request) -> Response:
            async def wait() -> AsyncIterator[bytes]:
                yield b": here\n\n"
                await asyncio.sleep(60)

            headers = {batches.HEADER: self.offers} if self.offers is not None else None
            return StreamingResponse(wait(), media_type="text/event-stream", headers=headers)

        post = Route("/my/projects/p/{rest:path}", take, methods=["POST"])
        return Starlette(routes=[post, Route("/my/projects/p/chat/stream", stream)])

    @property
    def batched(self) -> list[list[str]]:
        """The ids in each batch."""
        posts = [json.loads(body)["results"] for path, body in self.posts if path == "tools/results"]
        return [[item["tool_id"] for item in items] for items in posts]

    @property
    def alone(self) -> list[str]:
        """The ids of results posted alone."""
        return [path.split("/")[1] for path, _ in self.posts if path.endswith("/result")]


@contextlib.asynccontextmanager
async def delivering(counter: Counter, tmp_path: Path) -> AsyncIterator[Ledger]:
    journal = Journal(tmp_path / "state")
    try:
        async with serving(counter.app) as url:
            credentials = Credentials(url, tmp_path / "state", env={"CLIENT_AGENT_TOKEN": "t"})
            async with ServerConnection(config.Link(), url, "p", credentials) as connection:
                ledger = journal.recover("w").ledger
                tasks = [asyncio.create_task(Courier(ledger.outbox, connection).run())]
                if counter.offers is not None:
                    tasks.append(asyncio.create_task(anext(connection.events())))  # type: ignore[arg-type]
                    await connection.wait_until(lambda status: status.state is LinkState.CONNECTED)
                try:
                    yield ledger
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.wait(tasks)
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


async def test_what_becomes_due_while_it_is_looked_at_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(time.time(), 0.3)  # every look at it is a while later
    monkeypatch.setattr(delivery, "time", SimpleNamespace(time=lambda: next(clock)))
    counter = Counter(lambda n, body: Response(status_code=500 if n <= 5 else 200))
    async with delivering(counter, tmp_path) as ledger:
        for number in range(5):
            await finish(ledger, f"t{number}", {})
        await emptied(ledger)
    assert len(counter.bodies) == 10


# Batches.


def saying(codes: Callable[[str], int]) -> Callable[[int, bytes], Response]:
    """Takes everything that comes alone, and answers each result of a batch with its code."""

    def answer(number: int, body: bytes) -> Response:
        items = json.loads(body).get("results", [])
        said = [batches.Verdict(item["tool_id"], codes(item["tool_id"]), "as the script says") for item in items]
        return Response(msgspec.json.encode(batches.BatchReply(success=True, results=said)))

    return answer


async def finish_many(ledger: Ledger, count: int = 10) -> list[str]:
    ids = [f"t{number}" for number in range(count)]
    for tool_id in ids:  # none of it waits, so they are due together
        await finish(ledger, tool_id, {"content": tool_id})
    return ids


async def test_results_that_are_due_together_go_in_one_post_where_that_is_offered(tmp_path: Path) -> None:
    counter = Counter(saying(lambda tool_id: 200), offers="64")
    async with delivering(counter, tmp_path) as ledger:
        ids = await finish_many(ledger)
        await finish(ledger, "large", {"content": "x" * BATCHED_MAX_BYTES})
        await emptied(ledger)
    assert counter.batched == [ids]
    assert counter.alone == ["large"]
    (batch,) = [json.loads(body)["results"] for path, body in counter.posts if path == "tools/results"]
    assert [item["result"]["content"] for item in batch] == ids


@pytest.mark.parametrize("offers", ["0", "1", "-3", "many", "9" * 5000, "²"])
async def test_without_a_usable_offer_each_goes_alone(tmp_path: Path, offers: str) -> None:
    counter = Counter(saying(lambda tool_id: 200), offers=offers)
    async with delivering(counter, tmp_path) as ledger:
        ids = await finish_many(ledger)
        await emptied(ledger)
    assert (counter.batched, sorted(counter.alone)) == ([], sorted(ids))


async def test_a_batch_is_no_larger_than_the_server_says_nor_than_we_send(tmp_path: Path) -> None:
    for offers, largest in (("4", 4), ("1000", IN_FLIGHT)):
        counter = Counter(saying(lambda tool_id: 200), offers=offers)
        async with delivering(counter, tmp_path / offers) as ledger:
            ids = await finish_many(ledger, 100)
            await emptied(ledger)
        assert max(map(len, counter.batched)) == largest
        assert sorted([*counter.alone, *(each for batch in counter.batched for each in batch)]) == sorted(ids)


async def test_each_result_of_a_batch_has_its_own_end(tmp_path: Path) -> None:
    codes = {"t1": 404, "t2": 409, "t3": 413, "t4": 503}
    counter = Counter(saying(lambda tool_id: codes.pop(tool_id, 200)), offers="64")
    async with delivering(counter, tmp_path) as ledger:
        ids = await finish_many(ledger)
        await emptied(ledger)
    assert counter.batched == [ids]
    assert sorted(counter.alone) == ["t3", "t4"]  # at once, to be shortened if it must; and after a while
    from client_agent.journal.reader import reading

    with reading(tmp_path / "state") as reader:
        assert [(post.target, post.state) for post in reader.posts_not_delivered()] == [("t1", PostState.DEAD)]


async def test_a_result_that_the_answer_does_not_name_is_sent_alone(tmp_path: Path) -> None:
    said = saying(lambda tool_id: 200)

    def answer(number: int, body: bytes) -> Response:
        return said(number, body.replace(b'"tool_id":"t5"', b'"tool_id":"other"'))

    counter = Counter(answer, offers="64")
    async with delivering(counter, tmp_path) as ledger:
        await finish_many(ledger)
        await emptied(ledger)
    assert counter.alone == ["t5"]


@pytest.mark.parametrize("refusal", [Response(status_code=404), Response(status_code=413), Response(b"[]")])
async def test_a_server_that_takes_no_batch_after_all_gets_each_alone_from_then_on(
    tmp_path: Path, refusal: Response
) -> None:
    said = saying(lambda tool_id: 200)
    counter = Counter(lambda n, body: refusal if b'"results"' in body else said(n, body), offers="64")
    async with delivering(counter, tmp_path) as ledger:
        ids = await finish_many(ledger)
        await emptied(ledger)
        for tool_id in ("u1", "u2"):
            await finish(ledger, tool_id, {})
        await emptied(ledger)
    assert counter.batched == [ids]
    assert sorted(counter.alone) == sorted([*ids, "u1", "u2"])


async def test_a_batch_that_fails_is_sent_again_and_nothing_is_given_up(tmp_path: Path) -> None:
    said = saying(lambda tool_id: 200)
    counter = Counter(lambda n, body: Response(status_code=502) if n == 1 else said(n, body), offers="64")
    async with delivering(counter, tmp_path) as ledger:
        ids = await finish_many(ledger)
        await emptied(ledger)
    again = [*counter.alone, *(each for batch in counter.batched[1:] for each in batch)]
    assert counter.batched[0] == ids
    assert sorted(again) == sorted(ids)
