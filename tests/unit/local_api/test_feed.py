"""What is pushed to whoever watches."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from client_agent.local_api.feed import Feed
from client_agent.protocol.calls import Call


class Watcher:
    packed = False

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.told = asyncio.Event()

    def push(self, message: bytes) -> None:
        event = msgspec.json.decode(message)
        self.heard.append((event["event"], event["data"]))
        self.told.set()


def watched() -> tuple[Feed, Watcher]:
    feed, watcher = Feed(lambda: 0.0), Watcher()
    feed.add(watcher)
    return feed, watcher


async def hear(watcher: Watcher) -> list[tuple[str, Any]]:
    async with asyncio.timeout(10):
        await watcher.told.wait()
    return watcher.heard


async def test_output_is_gathered_by_call_and_stream() -> None:
    feed, watcher = watched()
    for stream, text in (("stdout", "one\n"), ("stderr", "oh\n"), ("stdout", "two\n")):
        feed.note_output("w", "t1", stream, text)
    ((event, rows),) = await hear(watcher)
    assert event == "output"
    assert rows == [
        {"workspace": "w", "tool_id": "t1", "stream": "stdout", "text": "one\ntwo\n", "left_out": 0},
        {"workspace": "w", "tool_id": "t1", "stream": "stderr", "text": "oh\n", "left_out": 0},
    ]


async def test_output_is_told_before_the_end_of_its_call() -> None:
    feed, watcher = watched()
    feed.note_call("w", Call(tool_id="t1", tool_name="execute_command", tool_params={}), state="COMPLETED")
    feed.note_output("w", "t1", "stdout", "last words")
    assert [event for event, _ in await hear(watcher)] == ["output", "activity"]


async def test_a_flood_of_output_is_bounded_and_counted() -> None:
    feed, watcher = watched()
    for number in range(100):
        feed.note_output("w", f"t{number}", "stdout", "x" * 10_000)
    ((_, rows),) = await hear(watcher)
    shown = sum(len(row["text"]) for row in rows)
    assert shown < 100_000
    assert shown + sum(row["left_out"] for row in rows) == 1_000_000


async def test_output_keeps_its_lines_and_tabs_and_nothing_that_acts_on_the_page() -> None:
    feed, watcher = watched()
    feed.note_output("w", "t1", "stdout", "a\tb\r\n\x1b[31m\u202ered\n")
    ((_, rows),) = await hear(watcher)
    assert rows[0]["text"] == "a    b\n⟨U+001B⟩[31m⟨U+202E⟩red\n"


def test_nothing_is_gathered_while_nobody_watches() -> None:
    feed = Feed(lambda: 0.0)
    feed.note_output("w", "t1", "stdout", "x")  # would need a running loop
