"""Calls of a remote agent, through a real server and a real daemon."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from client_agent.approvals.questions import Answer, Outcome
from tests.integration.daemon.conftest import World


async def test_a_read_runs_without_asking(world: World) -> None:
    (world.root / "a.txt").write_text("hello")
    async with world.running_daemon():
        response = await world.execute("read_file", path="a.txt")
    assert response["status"] == "completed"
    assert response["result"]["content"] == "hello"
    assert world.person.asked == []


async def test_a_write_asks_shows_the_change_and_runs_after_a_yes(world: World) -> None:
    (world.root / "a.md").write_text("old\n")
    async with world.running_daemon():
        response = await world.execute("write_file", path="a.md", content="new\n")
    assert response["status"] == "completed"
    assert (world.root / "a.md").read_text() == "new\n"
    (question,) = world.person.asked
    assert "-old" in question.change
    assert "+new" in question.change
    assert question.decision.risk.name == "MEDIUM"
    assert response["approval_id"]


async def test_a_no_reaches_the_agent_with_its_reason_and_nothing_is_written(world: World) -> None:
    world.person.says = Answer(outcome=Outcome.REJECTED, reason="not today", by="person")
    async with world.running_daemon():
        response = await world.execute("write_file", path="a.md", content="x")
    assert response["status"] == "rejected"
    assert "not today" in response["error"]
    assert "Do not retry" in response["error"]
    assert list(world.root.iterdir()) == []


async def test_time_that_runs_out_on_the_laptop_is_a_timeout_and_no_rejection(world: World) -> None:
    world.person.says = None
    async with world.running_daemon(medium_timeout_s=0.2):
        response = await world.execute("write_file", path="a.md", content="x")
    assert (response["status"], response["error"]) == ("timeout", "Approval timeout")
    assert world.person.answers[0].outcome is Outcome.TIMED_OUT
    assert list(world.root.iterdir()) == []


async def test_three_like_refusals_pause_the_session_and_both_sides_hear_of_it(world: World) -> None:
    world.person.says = Answer(outcome=Outcome.REJECTED, by="person")
    async with world.running_daemon():
        refusals = [await world.execute("write_file", path=f"{n}.md", content="x") for n in range(4)]
        assert ["is paused" in each["error"] for each in refusals] == [False, False, True, True]
        assert len(world.person.asked) == 3
        assert [pause.session_id for pause in world.broker.pauses.standing] == ["s1"]
        other = await world.execute("write_file", session="s2", path="a.md", content="x")
        assert "is paused" not in other["error"]
        assert len(world.person.asked) == 4


async def test_with_nobody_to_ask_the_agent_hears_so_at_once(world: World) -> None:
    world.broker.detach(world.person)
    async with world.running_daemon(unattended="reject"):
        response = await world.execute("write_file", path="a.md", content="x")
    assert response["status"] == "rejected"
    assert "nobody can be asked" in response["error"]


async def test_what_the_laptop_refuses_is_refused_whatever_the_server_checked(world: World) -> None:
    outside = world.root.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("canary-outside")
    (world.root / "link").symlink_to(outside)
    (world.root / ".env").write_text("canary-env")
    (world.root / "notes.txt").symlink_to(".env")
    async with world.running_daemon():
        through_link = await world.execute("read_file", path="link/secret.txt")
        disguised = await world.execute("read_file", path="notes.txt")
        absolute = await world.execute("read_file", path=str(outside / "secret.txt"))
        written = await world.execute("write_file", path="link/new.txt", content="x")
    for response in (through_link, disguised, absolute, written):
        assert response["status"] in ("failed", "rejected"), response
        assert "canary" not in str(response)
    assert not (outside / "new.txt").exists()
    assert world.person.asked == []


async def test_two_hundred_calls_in_flight_are_all_answered_once_and_none_is_crossed(world: World) -> None:
    for number in range(200):
        (world.root / f"f{number}.txt").write_text(f"content {number}")
    async with world.running_daemon():
        responses = await asyncio.gather(*(world.execute("read_file", path=f"f{n}.txt") for n in range(200)))
    assert [r["result"]["content"] for r in responses] == [f"content {n}" for n in range(200)]
    assert len({r["tool_id"] for r in responses}) == 200


async def test_an_open_question_holds_up_no_other_call(world: World) -> None:
    (world.root / "a.txt").write_text("hello")
    world.person.says = None
    async with world.running_daemon(calls_in_flight=1):
        writing = asyncio.create_task(world.execute("write_file", path="b.md", content="x"))
        async with asyncio.timeout(20):
            await world.person.was_asked.wait()
            reading = await world.execute("read_file", path="a.txt")
            assert reading["status"] == "completed"
            assert not writing.done()
            world.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
            assert (await writing)["status"] == "completed"


async def test_a_question_outlives_the_daemon_and_is_asked_again(world: World) -> None:
    world.person.says = None
    async with world.running_daemon():
        writing = asyncio.create_task(world.execute("write_file", path="b.md", content="x"))
        async with asyncio.timeout(20):
            await world.person.was_asked.wait()
    world.person.says = Answer(outcome=Outcome.APPROVED, by="person")
    async with world.running_daemon():
        async with asyncio.timeout(20):
            assert (await writing)["status"] == "completed"
    assert len(world.person.asked) == 2
    assert (world.root / "b.md").read_text() == "x"


async def test_a_cancelled_call_takes_its_question_away(world: World) -> None:
    world.person.says = None
    async with world.running_daemon():
        writing = asyncio.create_task(world.execute("write_file", path="b.md", content="x"))
        async with asyncio.timeout(20):
            await world.person.was_asked.wait()
            tool_id = world.person.asked[0].call.tool_id
            path = f"/my/projects/project-1/tools/{tool_id}/cancel"
            assert (await world.agent.post(path, json={"reason": "changed my mind"})).status_code == 200
            await writing
            while world.broker.open_questions:
                await asyncio.sleep(0.01)
    assert not (world.root / "b.md").exists()


@pytest.mark.parametrize(
    ("tool", "params"),
    [
        ("no_such_tool", {}),
        ("read_file", {}),
        ("read_file", {"path": "a", "cwd": "/"}),
        ("read_file", {"path": "missing.txt"}),
        ("write_file", {"path": "evil.so", "content": ""}),
        ("list_directory", {"path": "nowhere"}),
    ],
)
async def test_what_cannot_be_done_fails_with_words_and_the_daemon_goes_on(
    world: World, tool: str, params: dict[str, Any]
) -> None:
    (world.root / "a.txt").write_text("still here")
    async with world.running_daemon():
        response = await world.execute(tool, **params)
        after = await world.execute("read_file", path="a.txt")
    assert response["status"] in ("failed", "rejected")
    assert response["error"]
    assert after["result"]["content"] == "still here"
