"""What becomes of a result, for each answer a server may give to it: from the signal to the post, over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from client_agent.conformance.peer import Answer, Peer, Request
from client_agent.daemon import WorkspaceAgent
from client_agent.errors import JournalError
from client_agent.journal.reader import reading
from client_agent.journal.records import Post
from client_agent.link import delivery
from client_agent.link.status import LinkState
from client_agent.server.auth import issue_token
from tests.integration.reliability.conftest import PROJECT, SECRET, USER, Laptop

TOKEN = issue_token(SECRET, USER)
OTHER_TOKEN = issue_token(SECRET, USER, 7200)
A_DAY_OF_TRIES = 24 * 60  # one a minute


def is_result(tool_id: str) -> Callable[[Request], bool]:
    return lambda post: post.path.endswith(f"/tools/{tool_id}/result")


def read(number: int, tool_id: str, path: str = "a.txt") -> bytes:
    data = {"tool_id": tool_id, "tool_name": "read_file", "tool_params": {"path": path}}
    return f"id: {number}\nevent: tool.execution_signal\ndata: {json.dumps(data)}\n\n".encode()


@pytest.fixture
async def peer(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Peer]:
    monkeypatch.setenv("CLIENT_AGENT_TOKEN", TOKEN)
    (laptop.root / "a.txt").write_text("x")
    async with Peer(PROJECT, TOKEN) as peer:
        yield peer


async def emptied(agent: WorkspaceAgent) -> None:
    assert agent.outbox is not None
    async with asyncio.timeout(20):
        while len(agent.outbox):
            await asyncio.sleep(0.01)


def left_over(laptop: Laptop) -> list[Post]:
    with reading(laptop.state) as reader:
        return reader.posts_not_delivered()


@pytest.mark.parametrize("status", [400, 403, 404])
async def test_what_the_server_will_never_take_is_set_aside_and_the_next_goes_on(
    laptop: Laptop, peer: Peer, status: int
) -> None:
    peer.answer_post = lambda post: Answer(status=status if "/bad/" in post.path else 200, body=b"no such call")
    async with laptop.running(peer.url) as agent:
        await peer.stream.send(read(1, "bad") + read(2, "good"))
        await peer.wait_for_posts(is_result("good"), 1, 20)
        await emptied(agent)
    (post,) = left_over(laptop)
    assert (post.target, post.state, post.problem) == ("bad", "dead", f"the server answered {status}: no such call")
    assert sum(map(is_result("bad"), peer.posts)) == 1


async def test_a_409_says_that_the_server_has_it(laptop: Laptop, peer: Peer) -> None:
    peer.answer_post = lambda post: Answer(status=409)
    async with laptop.running(peer.url) as agent:
        await peer.stream.send(read(1, "t"))
        await peer.wait_for_posts(is_result("t"), 1, 20)
        await emptied(agent)
    assert left_over(laptop) == []
    assert len(peer.posts) == 1


async def test_after_a_429_the_time_the_server_names_is_kept_even_when_the_stream_comes_back(
    laptop: Laptop, peer: Peer
) -> None:
    peer.answer_post = lambda post: Answer(status=429 if not peer.posts else 200, headers={"Retry-After": "3"})
    async with laptop.running(peer.url):
        await peer.stream.send(read(1, "t"))
        await peer.wait_for_posts(is_result("t"), 1, 20)
        peer.stream.cut()  # what waits is hastened when it is open again
        await peer.wait_for_stream(20, after=1)
        first, second = await peer.wait_for_posts(is_result("t"), 2, 20)
    assert second.at - first.at >= 3


@pytest.mark.parametrize("trouble", [Answer(status=503), Answer(reset=True)])
async def test_a_result_is_tried_for_a_day_and_longer(
    laptop: Laptop, peer: Peer, monkeypatch: pytest.MonkeyPatch, trouble: Answer
) -> None:
    monkeypatch.setattr(delivery, "RETRY_MIN_S", 0.0)
    monkeypatch.setattr(delivery, "RETRY_MAX_S", 0.0)
    peer.answer_post = lambda post: trouble if len(peer.posts) < A_DAY_OF_TRIES else Answer()
    async with laptop.running(peer.url) as agent:
        await peer.stream.send(read(1, "t"))
        await peer.wait_for_posts(is_result("t"), A_DAY_OF_TRIES + 1, 60)
        await emptied(agent)
    assert left_over(laptop) == []


async def test_a_result_that_is_too_large_is_shortened_and_then_tried_like_any_other(
    laptop: Laptop, peer: Peer
) -> None:
    (laptop.root / "large.txt").write_text("a" * 60_000 + "b" * 60_000)

    def answer(post: Request) -> Answer:
        if len(post.body) > 100_000:
            return Answer(status=413)
        return Answer(status=503 if sum(len(each.body) < 100_000 for each in peer.posts) == 0 else 200)

    peer.answer_post = answer
    async with laptop.running(peer.url) as agent:
        await peer.stream.send(read(1, "t", "large.txt"))
        posts = await peer.wait_for_posts(is_result("t"), 3, 20)
        await emptied(agent)
    assert [len(post.body) > 100_000 for post in posts] == [True, False, False]
    result = posts[2].json()["result"]
    assert result["truncated"] is True
    assert "characters left out: the server takes no more" in result["content"]
    assert left_over(laptop) == []


async def test_a_token_that_is_refused_is_told_and_with_a_new_one_everything_goes_on(
    laptop: Laptop, peer: Peer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with laptop.running(peer.url) as agent:
        peer.token = OTHER_TOKEN  # the stream stays open: the server noticed nothing yet
        await peer.stream.send(read(1, "t"))
        async with asyncio.timeout(20):
            while "results wait until the server takes the token" not in caplog.text:
                await asyncio.sleep(0.02)
        agent._journal.flush()
        (waiting,) = left_over(laptop)
        assert (waiting.state, waiting.attempts, "401" in (waiting.problem or "")) == ("waiting", 0, True)
        peer.stream.cut()
        async with asyncio.timeout(20):
            await agent.connection.wait_until(lambda status: status.state is LinkState.UNAUTHORIZED)
        monkeypatch.setenv("CLIENT_AGENT_TOKEN", OTHER_TOKEN)
        await peer.wait_for_posts(is_result("t"), 1, 20)
        await emptied(agent)
    assert caplog.text.count("results wait until the server takes the token") == 1
    assert left_over(laptop) == []


async def test_a_journal_damaged_under_the_daemon_is_told_and_set_aside_by_the_next_run(
    laptop: Laptop, peer: Peer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delivery, "JOURNAL_RETRY_S", 0.1)
    peer.answer_post = lambda post: Answer(reset=True)
    with contextlib.suppress(JournalError):  # it cannot store how far it came, and says so once more at the end
        async with laptop.running(peer.url) as agent:
            await peer.stream.send(read(1, "t"))
            await peer.wait_for_posts(is_result("t"), 1, 20)
            agent._journal.flush()  # its body is on the disk now, and nowhere else
            for part in laptop.state.glob("journal.sqlite3*"):
                part.write_bytes(b"\xff" * part.stat().st_size)
            async with asyncio.timeout(20):
                while "what waits to be sent cannot be read" not in caplog.text:
                    await asyncio.sleep(0.02)
            assert "restart the daemon, which sets it aside" in caplog.text
            await peer.stream.send(read(2, "t-2"))
    peer.answer_post = lambda post: Answer()
    async with laptop.running(peer.url) as agent:
        await peer.stream.send(read(3, "t-3"))
        await peer.wait_for_posts(is_result("t-3"), 1, 20)
        await emptied(agent)
    assert "the journal was damaged: it is kept as" in caplog.text
    assert len(list(laptop.state.glob("journal.sqlite3.damaged-*"))) >= 1
    assert sum(map(is_result("t-2"), peer.posts)) == 0
