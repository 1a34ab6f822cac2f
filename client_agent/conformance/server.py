"""A server under test: whom we can be to it, and calls that are under way there."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import msgspec

from client_agent.conformance.api import EventReader, Heard, ServerApi, new_path
from client_agent.conformance.cases import expect
from client_agent.protocol.messages import ApprovalRequest, ExecutionSignal


class ServerUnderTest(msgspec.Struct, kw_only=True):
    """The server, and whom we can be to it."""

    user: ServerApi
    agent: ServerApi | None = None
    stranger: ServerApi | None = None
    other_project: str | None = None
    settle_s: float = 0.5  # how long something that must not come is given to come

    @property
    def asking(self) -> ServerApi:
        return self.agent or self.user


def answered(response: httpx.Response, *statuses: int) -> httpx.Response:
    wanted = " or ".join(map(str, statuses))
    expect(response.status_code in statuses, f"{response.status_code}, expected {wanted}: {response.text[:200]}")
    return response


def body_of(response: httpx.Response) -> dict[str, Any]:
    value = response.json()
    expect(isinstance(value, dict), f"the answer is no JSON object: {response.text[:100]}")
    return dict(value)


def expect_fields(what: str, value: dict[str, Any], *names: str) -> None:
    missing = [name for name in names if name not in value]
    expect(not missing, f"{what} has no {', '.join(missing)}: {sorted(value)}")


def data_of(heard: Heard) -> dict[str, Any]:
    """The event's data object, out of its envelope where it has one."""
    value = msgspec.json.decode(heard.event.data)
    return dict(value.get("data", value)) if "event" in value else dict(value)


async def signalled(
    server: ServerUnderTest, events: EventReader, **params: Any
) -> tuple[asyncio.Task[httpx.Response], Heard, ExecutionSignal]:
    """A harmless call that was asked for and is signalled."""
    path = new_path()
    asked = server.asking.execute("read_file", {"path": path, **params})
    heard, signal = await events.signal(path)
    return asked, heard, signal


async def questioned(
    server: ServerUnderTest, events: EventReader, path: str | None = None, content: str = "x"
) -> tuple[asyncio.Task[httpx.Response], Heard, ApprovalRequest]:
    """A write that was asked for and is asked about."""
    path = path or new_path()
    asked = server.asking.execute("write_file", {"path": path, "content": content})
    heard, question = await events.question(path)
    return asked, heard, question
