"""A HIGH question that nobody sees opens the page: a real daemon, and a program in the browser's place."""

from __future__ import annotations

import asyncio
import webbrowser
from pathlib import Path

import pytest

from client_agent.approvals.questions import Answer, Outcome
from client_agent.daemon import Daemon
from client_agent.local_api.client import connecting
from tests.integration.daemon.conftest import World


@pytest.fixture
def visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the addresses are written down that a browser was started with."""
    visited = tmp_path / "visited"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {visited}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "_tryorder", None)  # found anew
    return visited


async def ask(world: World, path: str) -> None:
    """Asks, and answers once it is asked."""
    asking = asyncio.create_task(world.execute("write_file", path=path, content="x"))
    async with asyncio.timeout(20):
        while not world.broker.open_questions:
            await asyncio.sleep(0.01)
    (question,) = world.broker.open_questions
    world.broker.answer(question.id, question.binding, Answer(outcome=Outcome.REJECTED, by="person"))
    await asking


async def test_a_high_question_opens_the_page_once(world: World, visits: Path) -> None:
    world.broker.detach(world.person)
    async with world.running_daemon():
        await ask(world, "a.md")
        await ask(world, "a.sh")
        await ask(world, "b.sh")
        async with asyncio.timeout(20):
            while not (visits.exists() and visits.read_text()):
                await asyncio.sleep(0.01)
    (address,) = visits.read_text().splitlines()
    assert address.startswith("http://127.0.0.1:")
    assert address.endswith("~")


def addresses(daemon: Daemon) -> int:
    """How many addresses of the page were made, for whatever browser."""
    return len(daemon._door.page._keys._tickets)


async def test_it_stays_closed_while_a_terminal_asks(world: World, visits: Path) -> None:
    async with world.running_daemon() as daemon:
        await world.execute("write_file", path="a.sh", content="x")
        assert (len(world.person.asked), addresses(daemon)) == (1, 0)
    assert not visits.exists()


async def test_it_stays_closed_while_somebody_watches(world: World, visits: Path) -> None:
    world.broker.detach(world.person)
    async with world.running_daemon() as daemon:
        with connecting(world.state) as watching:
            await asyncio.to_thread(watching.request, "watch", packed=True)
            await ask(world, "a.sh")
            assert addresses(daemon) == 0
        async with asyncio.timeout(20):
            while daemon._door.feed.watched:
                await asyncio.sleep(0.01)
        await ask(world, "b.sh")
        assert addresses(daemon) == 1
