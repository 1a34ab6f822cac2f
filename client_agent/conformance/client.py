"""A client under test: what is sent to it, and what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from client_agent.conformance.cases import Deviation, NotTried, expect
from client_agent.conformance.peer import Answer, Peer, Request, Stream
from client_agent.protocol import routes

# What a client says where nobody was there to say yes.
_NOT_APPROVED = frozenset({"no_approver", "rejected_by_user", "approval_timeout"})


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """An event, ready to be sent as often as wanted."""

    event_id: str
    name: str
    tool_id: str
    params: dict[str, Any]
    data: str
    sse_name: str = ""

    @property
    def block(self) -> bytes:
        return _block(self.event_id, self.sse_name or self.name, self.data)


class ClientUnderTest:
    """The client that is connected to `peer` and works in `workspace`."""

    def __init__(
        self,
        *,
        peer: Peer,
        workspace: Path,
        user_id: str,
        patience_s: float = 30,
        person_s: float = 60,
        silence_s: float = 75,
        settle_s: float = 4,
    ) -> None:
        self.peer = peer
        self.workspace = workspace
        self.user_id = user_id
        self.patience_s = patience_s
        self.person_s = person_s  # how long a person may take
        self.silence_s = silence_s  # how long a client may take a silent stream for a living one
        self.settle_s = settle_s  # how long something that must not come is given to come
        self._number = 0
        self._files: dict[str, str] = {}

    @property
    def stream(self) -> Stream:
        return self.peer.stream

    async def start_case(self) -> None:
        """A connected client and a well-behaved server, whatever the case before has left."""
        self.peer.answer_post = lambda request: Answer()
        self.peer.answer_stream = lambda request: None
        if self.peer.stream_headers:
            self.peer.stream_headers = {}
            self.stream.cut()
            await self._connected(len(self.peer.streams), self.silence_s)
        await self._connected(0, self.silence_s)

    async def reconnected(self, *, cut: bool, patience_s: float | None = None) -> Stream:
        """The stream that the client opens after this one."""
        before = len(self.peer.streams)
        if cut:
            self.stream.cut()
        return await self._connected(before, patience_s or self.patience_s)

    async def _connected(self, after: int, patience_s: float) -> Stream:
        try:
            return await self.peer.wait_for_stream(patience_s, after=after)
        except TimeoutError:
            raise Deviation(f"the client did not connect within {patience_s:g} s") from None

    # Sending.

    def new_id(self) -> str:
        return f"conformance-{uuid4().hex}"

    def new_file(self, content: str | None = None) -> dict[str, str]:
        """The parameters of a `read_file` of a file that is made for it."""
        name = f"read-{len(self._files)}.txt"
        self._files[name] = content or f"content of {name}, ü \U0001f600"
        (self.workspace / name).write_text(self._files[name], encoding="utf-8")
        return {"path": name}

    def prepare(
        self,
        tool: str,
        params: dict[str, Any],
        *,
        name: str = "tool.execution_signal",
        tool_id: str | None = None,
        enveloped: bool = False,
        sse_name: str = "",
        **fields: Any,
    ) -> Sent:
        """A signal, not sent yet."""
        tool_id = tool_id or self.new_id()
        base = {"tool_id": tool_id, "tool_name": tool, "tool_params": params, "timestamp": "2026-01-01T00:00:00Z"}
        data: dict[str, Any] = {**base, "user_id": self.user_id, **fields}
        text = _json({"event": name, "data": data} if enveloped else data)
        return Sent(event_id=self._next_id(), name=name, tool_id=tool_id, params=params, data=text, sse_name=sse_name)

    async def transmit(self, sent: Sent, event_id: str | None = None) -> None:
        """Sends it; again under its own id, or under another."""
        await self.stream.send(sent.block if event_id is None else _block(event_id, sent.name, sent.data))

    async def signal(self, tool: str, params: dict[str, Any], **options: Any) -> Sent:
        sent = self.prepare(tool, params, **options)
        await self.transmit(sent)
        return sent

    async def request_approval(self, sent: Sent, approval_id: str, name: str = "tool.approval_request") -> None:
        """Asks for the approval of what is going to be signalled."""
        asked = {
            "approval_id": approval_id,
            "risk_level": "MEDIUM",
            "timeout_seconds": 300,
            "description": "conformance",
        }
        await self.send(name, {**msgspec.json.decode(sent.data), **asked})

    async def send(self, name: str, data: dict[str, Any]) -> None:
        await self.send_raw(name, _json(data))

    async def send_raw(self, name: str, data: str) -> None:
        await self.stream.send(_block(self._next_id(), name, data))

    def _next_id(self) -> str:
        self._number += 1
        return str(self._number)

    # What it answers.

    def result_path(self, tool_id: str) -> str:
        return routes.fill(routes.TOOL_RESULT, project_id=self.peer.project_id, tool_id=tool_id)

    def results(self, tool_id: str) -> list[Request]:
        """The posts of this call's result so far."""
        path = self.result_path(tool_id)
        return [post for post in self.peer.posts if post.path == path]

    async def result(self, tool_id: str, *, count: int = 1, patience_s: float | None = None) -> dict[str, Any]:
        """The body of the n-th post of this call's result. Raises Deviation when it does not come."""
        path = self.result_path(tool_id)
        posts = await self._posts(f"result {count} of {tool_id}", path, count, patience_s or self.patience_s)
        body = posts[count - 1].json()
        expect(isinstance(body, dict) and body.get("status") in ("completed", "failed"), f"posted {body!r}")
        return dict(body)

    async def approved_result(self, sent: Sent) -> dict[str, Any]:
        """The result of a write, which somebody had to approve."""
        try:
            body = await self.result(sent.tool_id, patience_s=self.person_s)
        except Deviation as deviation:
            raise Deviation(f"{deviation} (did somebody say yes to {sent.params.get('path')!r}?)") from None
        if code_of(body) in _NOT_APPROVED:
            raise NotTried(f"nobody approved {sent.params.get('path')!r}")
        expect(body["status"] == "completed", f"the write failed: {body.get('error')}")
        return body

    async def answer(self, approval_id: str) -> Request:
        """The answer to a question, whichever it is."""
        names = {"project_id": self.peer.project_id, "approval_id": approval_id}
        paths = {routes.fill(route, **names) for route in (routes.APPROVE, routes.REJECT)}
        try:
            return (await self.peer.wait_for_posts(lambda post: post.path in paths, 1, self.person_s))[0]
        except TimeoutError:
            raise Deviation(f"no answer to the question within {self.person_s:g} s") from None

    def content_of(self, sent: Sent) -> str:
        return self._files[sent.params["path"]]

    async def expect_read(self, sent: Sent) -> str:
        """The call is answered with the content of its file."""
        body = await self.result(sent.tool_id)
        wanted = self.content_of(sent)
        expect(body["status"] == "completed", f"failed: {body.get('error')}")
        result = body.get("result") or {}
        expect(result.get("success") is True, f"`success` is {result.get('success')!r}")
        expect(result.get("content") == wanted, f"read {str(result.get('content'))[:80]!r}, expected {wanted[:80]!r}")
        return "the file's content"

    async def _posts(self, what: str, path: str, count: int, patience_s: float) -> list[Request]:
        try:
            return await self.peer.wait_for_posts(lambda post: post.path == path, count, patience_s)
        except TimeoutError:
            raise Deviation(f"{what} did not come within {patience_s:g} s") from None


def code_of(body: dict[str, Any]) -> str:
    """The code of a failure; empty where there is none."""
    error = (body.get("result") or {}).get("error")
    return str(error.get("code", "")) if isinstance(error, dict) else ""


def expect_failed(body: dict[str, Any]) -> str:
    """The result is a failure with words; what they are."""
    expect(body["status"] == "failed", f"status {body['status']!r}: {str(body.get('result'))[:200]}")
    expect(isinstance(body.get("error"), str) and bool(body["error"]), f"`error` is {body.get('error')!r}")
    return f"{code_of(body) or 'failed'}: {body['error'][:80]}"


def _block(event_id: str, name: str, data: str) -> bytes:
    return f"id: {event_id}\nevent: {name}\ndata: {data}\n\n".encode()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
