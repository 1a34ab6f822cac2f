"""The server in a thread of its own, and the plainest client there is: `requests`, and bytes split at blank lines."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from client_agent.config import Approvals
from client_agent.server.auth import issue_token
from client_agent.server.runner import running
from client_agent.server.settings import ServerSettings

Connect = Callable[..., "Api"]

SECRET = "a-secret-for-tests-of-enough-bytes"
WAIT_S = 30


def make_settings(directory: Path, **changes: Any) -> ServerSettings:
    defaults: dict[str, Any] = {
        "jwt_secret": SECRET,
        "port": 0,
        "database_url": f"sqlite:///{directory / 'server.db'}",
        "approvals": Approvals(),
        "result_timeout_s": WAIT_S,
    }
    return ServerSettings(**(defaults | changes))


@contextmanager
def live_server(settings: ServerSettings) -> Iterator[str]:
    """A real server on a real port; gives its base URL."""
    ready: Future[str] = Future()
    stop: Future[None] = Future()

    async def serve() -> None:
        async with running(settings) as base_url:
            ready.set_result(base_url)
            await asyncio.wrap_future(stop)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ready.result(WAIT_S)
    finally:
        if not stop.done():
            stop.set_result(None)
        thread.join(WAIT_S)
        assert not thread.is_alive(), "the server did not stop"


@dataclass
class SseMessage:
    id: str = ""
    name: str = ""
    data: Any = None


class Stream:
    """An open event stream, read as bytes."""

    def __init__(self, response: requests.Response) -> None:
        self.response = response
        self.raw = b""
        self._blocks = self._read_blocks()

    def _read_blocks(self) -> Iterator[bytes]:
        pending = b""
        for chunk in self.response.iter_content(chunk_size=None):
            self.raw += chunk
            pending += chunk
            *blocks, pending = pending.split(b"\n\n")
            yield from blocks

    def next_block(self) -> bytes:
        return next(self._blocks)

    def next_event(self) -> SseMessage:
        while True:
            block = self.next_block()
            if b"\ndata: " in block:
                break
        fields = dict(line.split(": ", 1) for line in block.decode().split("\n"))
        return SseMessage(id=fields["id"], name=fields["event"], data=json.loads(fields["data"]))

    def expect(self, name: str) -> SseMessage:
        event = self.next_event()
        assert event.name == name, event
        return event

    def read_to_end(self) -> bytes:
        """Whatever still comes until the server ends the stream."""
        for _ in self._blocks:
            pass
        return self.raw


@dataclass
class Api:
    """One user's requests to one project."""

    base_url: str
    user_id: str
    project_id: str
    agents: ThreadPoolExecutor
    token: str = ""
    open_streams: list[requests.Response] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.token = self.token or issue_token(SECRET, self.user_id)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def url(self, path: str) -> str:
        return f"{self.base_url}/my/projects/{self.project_id}{path}"

    def get(self, path: str, **options: Any) -> requests.Response:
        return requests.get(self.url(path), headers=self.headers, timeout=WAIT_S, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> requests.Response:
        if body is not None:
            options["json"] = body
        return requests.post(self.url(path), headers=self.headers, timeout=2 * WAIT_S, **options)

    def stream(self, last_event_id: str | None = None, query: str = "") -> Stream:
        headers = self.headers | ({} if last_event_id is None else {"Last-Event-ID": last_event_id})
        response = requests.get(self.url("/chat/stream" + query), headers=headers, timeout=WAIT_S, stream=True)
        assert response.status_code == 200, response.text
        self.open_streams.append(response)
        stream = Stream(response)
        assert stream.next_block().startswith(b"retry: ")
        return stream

    def submit(self, tool_name: str, **tool_params: Any) -> dict[str, Any]:
        """Asks for a call without waiting for its outcome."""
        reply = self.post("/tools/execute?wait=false", {"tool_name": tool_name, "tool_params": tool_params})
        assert reply.status_code == 200, reply.text
        return dict(reply.json())

    def execute(self, tool_name: str, **tool_params: Any) -> Future[requests.Response]:
        """Asks for a call as an agent does: blocked, in a thread."""
        return self.agents.submit(self.post, "/tools/execute", {"tool_name": tool_name, "tool_params": tool_params})

    def finish(self, tool_id: str, **result: Any) -> requests.Response:
        body = {"status": "completed", "result": {"success": True, **result}}
        return self.post(f"/tools/{tool_id}/result", body)

    def approve(self, approval_id: str) -> requests.Response:
        return self.post(f"/approvals/{approval_id}/approve", {"decision": "approved"})

    def reject(self, approval_id: str, reason: str | None = None) -> requests.Response:
        return self.post(f"/approvals/{approval_id}/reject", {"reason": reason} if reason else {})

    def record(self, tool_id: str) -> dict[str, Any]:
        reply = self.get(f"/tools/{tool_id}")
        assert reply.status_code == 200, reply.text
        return dict(reply.json())

    def other_user(self, user_id: str = "somebody-else") -> Api:
        return Api(self.base_url, user_id, self.project_id, self.agents)

    def agent(self, agent_id: str = "agent_coder") -> Api:
        token = issue_token(SECRET, self.user_id, agent_id=agent_id)
        return Api(self.base_url, self.user_id, self.project_id, self.agents, token)

    def close(self) -> None:
        for response in self.open_streams:
            response.close()
