"""A server under test, as its clients and agents see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from uuid import uuid4

import httpx
import msgspec

from client_agent.conformance.cases import Deviation, NotTried
from client_agent.protocol import routes
from client_agent.protocol.messages import (
    ApprovalRequest,
    ExecutionSignal,
    Malformed,
    Message,
    ResultAck,
    decode_event,
)
from client_agent.protocol.sse import SseDecoder, SseEvent

MAX_EVENT_BYTES = 64 * 2**20
Named: TypeAlias = Callable[[Message], bool]


class Heard(msgspec.Struct, frozen=True):
    """One event, as it came and as it is understood."""

    event: SseEvent
    message: Message


class EventReader:
    """An open stream: what came so far, and what comes next."""

    def __init__(self, response: httpx.Response, patience_s: float) -> None:
        self.response = response
        self.raw = bytearray()
        self.heard: list[Heard] = []
        self._patience_s = patience_s
        self._more = asyncio.Event()
        self._ended = False

    async def read(self) -> None:
        decoder = SseDecoder(MAX_EVENT_BYTES)
        try:
            async for chunk in self.response.aiter_bytes():
                self.raw += chunk
                for event in decoder.feed(chunk):
                    self.heard.append(Heard(event, decode_event(event.event, event.data)))
                self._more.set()
        except httpx.HTTPError:
            pass
        self._ended = True
        self._more.set()

    async def find(self, what: str, wanted: Named, *, after: int = 0) -> Heard:
        """The first event of which this holds, waiting for it. Raises Deviation when it does not come."""
        try:
            async with asyncio.timeout(self._patience_s):
                while True:
                    self._more.clear()
                    for heard in self.heard[after:]:
                        if wanted(heard.message):
                            return heard
                    if self._ended:
                        raise Deviation(f"the stream ended before {what}")
                    await self._more.wait()
        except TimeoutError:
            names = [heard.event.event for heard in self.heard[-5:]]
            raise Deviation(f"{what} did not come within {self._patience_s:g} s; last seen: {names}") from None

    async def wait_for_bytes(self, wanted: bytes, timeout_s: float) -> bool:
        """Whether these bytes come in time, outside events too."""
        try:
            async with asyncio.timeout(timeout_s):
                while wanted not in self.raw and not self._ended:
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            pass
        return wanted in self.raw

    async def signal(self, path: str) -> tuple[Heard, ExecutionSignal]:
        """The signal of the call whose `path` this is."""
        heard = await self.find("tool.execution_signal", lambda message: _is(message, ExecutionSignal, path))
        assert isinstance(heard.message, ExecutionSignal)  # noqa: S101
        return heard, heard.message

    async def question(self, path: str) -> tuple[Heard, ApprovalRequest]:
        """The question about the call whose `path` this is."""
        heard = await self.find("tool.approval_request", lambda message: _is(message, ApprovalRequest, path))
        assert isinstance(heard.message, ApprovalRequest)  # noqa: S101
        return heard, heard.message

    async def ack(self, tool_id: str) -> Heard:
        return await self.find(
            "tool.result_ack", lambda message: isinstance(message, ResultAck) and message.tool_id == tool_id
        )

    def about(self, tool_id: str) -> list[str]:
        """The names of all events about this call so far, in order."""
        return [
            type(heard.message).__name__ for heard in self.heard if getattr(heard.message, "tool_id", None) == tool_id
        ]


def _is(message: Message, kind: type[ExecutionSignal] | type[ApprovalRequest], path: str) -> bool:
    """Whether the event is of this kind and about this path. One that cannot be understood ends the search."""
    if isinstance(message, Malformed):
        raise Deviation(f"{message.name} cannot be understood: {message.problem}")
    if not isinstance(message, kind):
        return False
    if message.tool_params is None:
        raise NotTried("the server does not send tool_params with its questions, so they cannot be told apart")
    return message.tool_params.get("path") == path


class ServerApi:
    """One token, one project."""

    def __init__(self, http: httpx.AsyncClient, project_id: str, token: str | None, patience_s: float) -> None:
        self._http = http
        self.project_id = project_id
        self._token = token
        self._patience_s = patience_s

    def at(self, project_id: str) -> ServerApi:
        return ServerApi(self._http, project_id, self._token, self._patience_s)

    def using(self, token: str | None) -> ServerApi:
        return ServerApi(self._http, self.project_id, token, self._patience_s)

    @property
    def headers(self) -> dict[str, str]:
        return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}

    def url(self, route: str, **names: str) -> str:
        return routes.fill(route, project_id=self.project_id, **names)

    async def get(self, route: str, **names: str) -> httpx.Response:
        return await self._http.get(self.url(route, **names), headers=self.headers)

    async def knock(self, route: str) -> int:
        """The status alone: a stream that is opened has no end to wait for."""
        async with self._http.stream("GET", self.url(route), headers=self.headers) as response:
            return response.status_code

    async def post(self, route: str, body: Any, **names: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {**self.headers, "Content-Type": "application/json"}
        return await self._http.post(self.url(route, **names), content=content, headers=headers)

    def execute(self, tool: str, params: dict[str, Any]) -> asyncio.Task[httpx.Response]:
        """The agent's request, which blocks until the call has ended."""
        body = {"tool_name": tool, "tool_params": params, "session_id": "conformance"}
        return asyncio.create_task(self.post(routes.TOOLS_EXECUTE, body))

    async def finish(self, tool_id: str, output: dict[str, Any] | None = None) -> httpx.Response:
        body = {"status": "completed", "result": {"success": True, **(output or {})}}
        return await self.post(routes.TOOL_RESULT, body, tool_id=tool_id)

    async def approve(self, approval_id: str) -> httpx.Response:
        return await self.post(routes.APPROVE, {"decision": "approved"}, approval_id=approval_id)

    async def reject(self, approval_id: str, reason: str = "not today") -> httpx.Response:
        return await self.post(routes.REJECT, {"reason": reason}, approval_id=approval_id)

    @asynccontextmanager
    async def stream(self, last_event_id: str | None = None) -> AsyncIterator[EventReader]:
        headers = self.headers | {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        timeout = httpx.Timeout(self._patience_s, read=None)
        async with self._http.stream("GET", self.url(routes.STREAM), headers=headers, timeout=timeout) as response:
            if response.status_code != httpx.codes.OK:
                raise Deviation(f"the stream was answered with {response.status_code}")
            reader = EventReader(response, self._patience_s)
            reading = asyncio.create_task(reader.read())
            try:
                yield reader
            finally:
                reading.cancel()
                await asyncio.wait([reading])


def new_path(suffix: str = ".md") -> str:
    """A path that no other call has: by it the events of a call are recognised."""
    return f"conformance-{uuid4().hex}{suffix}"
