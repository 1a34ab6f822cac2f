"""A server that asks for an approval and does not say with which parameters: its answer is owed like any result."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable

import pytest

from client_agent.approvals.questions import Answer as Said
from client_agent.approvals.questions import Outcome
from client_agent.conformance.peer import Answer, Peer, Request
from client_agent.server.auth import issue_token
from tests.integration.reliability.conftest import PROJECT, SECRET, USER, Laptop

TOKEN = issue_token(SECRET, USER)
ASKED = {"approval_id": "ap", "tool_id": "t", "tool_name": "write_file", "risk_level": "MEDIUM"}


def event(number: int, name: str, **data: str) -> bytes:
    return f"id: {number}\nevent: {name}\ndata: {json.dumps(data)}\n\n".encode()


def ends_with(suffix: str) -> Callable[[Request], bool]:
    return lambda post: post.path.endswith(suffix)


@pytest.fixture
async def peer(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Peer]:
    monkeypatch.setenv("CLIENT_AGENT_TOKEN", TOKEN)
    async with Peer(PROJECT, TOKEN) as peer:
        yield peer


@contextlib.asynccontextmanager
async def asked(laptop: Laptop, peer: Peer, count: int = 1) -> AsyncIterator[None]:
    """A daemon that is connected, and in front of its person the question, for the n-th time."""
    async with laptop.running(peer.url), asyncio.timeout(20):
        await peer.wait_for_stream(20)
        await peer.stream.send(event(1, "tool.approval", **ASKED))
        while len(laptop.person.asked) < count:
            await asyncio.sleep(0.02)
        yield


async def test_the_answer_is_sent_until_the_server_has_it(laptop: Laptop, peer: Peer) -> None:
    peer.answer_post = lambda post: Answer(status=503 if len(peer.posts) < 2 else 200)
    async with asked(laptop, peer):
        posts = await peer.wait_for_posts(ends_with("/approvals/ap/approve"), 3, 20)
    assert {post.body for post in posts} == {b'{"decision":"approved"}'}
    assert not list(laptop.root.iterdir())


async def test_an_answer_given_while_the_server_is_away_is_delivered_by_the_next_run(
    laptop: Laptop, peer: Peer
) -> None:
    peer.answer_post = lambda post: Answer(reset=True)
    async with asked(laptop, peer):
        await peer.wait_for_posts(ends_with("/approve"), 1, 20)
    peer.posts.clear()
    peer.answer_post = lambda post: Answer()
    async with laptop.running(peer.url):
        await peer.wait_for_posts(ends_with("/approvals/ap/approve"), 1, 20)
    assert len(laptop.person.asked) == 1


async def test_a_question_nobody_answered_is_asked_again_after_a_restart(laptop: Laptop, peer: Peer) -> None:
    laptop.person.answers = False
    async with asked(laptop, peer):
        pass
    laptop.person.answers = True
    async with laptop.running(peer.url):
        await peer.wait_for_posts(ends_with("/approvals/ap/approve"), 1, 20)
    assert [question.call.tool_id for question in laptop.person.asked] == ["t", "t"]


async def test_a_server_that_asks_again_gets_the_same_answer_and_the_user_no_second_question(
    laptop: Laptop, peer: Peer
) -> None:
    async with asked(laptop, peer):
        await peer.wait_for_posts(ends_with("/approve"), 1, 20)
        await peer.stream.send(event(2, "tool.approval", **ASKED))
        await peer.wait_for_posts(ends_with("/approve"), 2, 20)
    assert len(laptop.person.asked) == 1


async def test_a_no_is_told_with_its_reason_and_both_are_in_the_audit_log(laptop: Laptop, peer: Peer) -> None:
    laptop.person.answers = False
    async with asked(laptop, peer):
        (question,) = laptop.person.asked
        laptop.broker.answer(
            question.id, question.binding, Said(outcome=Outcome.REJECTED, by="person", reason="not today")
        )
        (post,) = await peer.wait_for_posts(ends_with("/approvals/ap/reject"), 1, 20)
    assert post.json() == {"reason": "not today. Do not retry."}
    entries = [json.loads(line) for line in (laptop.state / "audit.jsonl").read_text().splitlines()]
    assert [entry["status"] for entry in entries] == ["asked", "denied"]


async def test_a_cancelled_call_takes_its_question_away(laptop: Laptop, peer: Peer) -> None:
    laptop.person.answers = False
    async with asked(laptop, peer):
        await peer.stream.send(event(2, "tool.cancel", tool_id="t", reason="changed my mind"))
        (post,) = await peer.wait_for_posts(ends_with("/approvals/ap/reject"), 1, 20)
    assert "changed my mind" in post.json()["reason"]
    assert laptop.broker.open_questions == []
