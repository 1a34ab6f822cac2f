"""The least server that speaks the wire protocol: it signals calls and times them until their result has arrived.

It runs in a process of its own and serves the floor and the program under test alike, each as a project, so that its
own cost is the same in both. Started as `python -m benchmarks.bare_server`; prints its port.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from client_agent.protocol.batches import HEADER, MAX_RESULTS, BatchReply, Verdict

HEARTBEAT_S = 15
KEEP_ALIVE_S = 300  # the bare client does not retry: a connection closed between two figures would end it
CALL_TIMEOUT_S = 120
_COMPLETED = b'"completed"'


class Drive(msgspec.Struct, kw_only=True):
    """An order to signal this call so many times, with so many in flight."""

    tool_name: str
    tool_params: dict[str, Any]
    count: int
    in_flight: int = 1
    distinct: str | None = None  # the name of a parameter that gets number and time of the call for "{n}" and "{t}"


class _Item(msgspec.Struct):
    tool_id: str
    status: str
    result: msgspec.Raw


class _Results(msgspec.Struct):
    results: list[_Item]


_batches = msgspec.json.Decoder(_Results)
_OFFER = {HEADER: str(MAX_RESULTS)}


class Project:
    """One connected client: what it is to be told, and which results are awaited."""

    def __init__(self) -> None:
        self.outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self.awaited: dict[str, asyncio.Future[bytes]] = {}
        self.connected_at: float | None = None
        self.connected = asyncio.Event()
        self._numbers = itertools.count(1)
        self._prefix = os.urandom(4).hex()

    def signal(self, tool_name: str, tool_params: dict[str, Any]) -> asyncio.Future[bytes]:
        """Sends one execution signal; the future is the body of its result."""
        number = next(self._numbers)
        tool_id = f"{self._prefix}-{number}"
        data = {"tool_id": tool_id, "tool_name": tool_name, "tool_params": tool_params}
        body = msgspec.json.encode(data)
        result = self.awaited[tool_id] = asyncio.get_running_loop().create_future()
        self.outgoing.put_nowait(b"id: %d\nevent: tool.execution_signal\ndata: %b\n\n" % (number, body))
        return result

    async def events(self) -> AsyncIterator[bytes]:
        beat = asyncio.create_task(self._heartbeat())
        try:
            yield b": ready\n\n"
            while True:
                yield await self.outgoing.get()
        finally:
            beat.cancel()
            self.connected.clear()

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            self.outgoing.put_nowait(b": still here\n\n")


_projects: dict[str, Project] = defaultdict(Project)


def _json(content: Any) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json")


async def stream(request: Request) -> Response:
    project = _projects[request.path_params["project"]]
    project.connected_at = time.perf_counter()
    project.connected.set()
    return StreamingResponse(project.events(), media_type="text/event-stream", headers=_OFFER)


async def take_result(request: Request) -> Response:
    body = await request.body()
    tool_id = request.path_params["tool_id"]
    result = _projects[request.path_params["project"]].awaited.pop(tool_id, None)
    if result is not None and not result.done():
        result.set_result(body)
    return _json({"success": True, "tool_id": tool_id, "status": "received", "message": ""})


async def take_results(request: Request) -> Response:
    """Several at once, as the protocol has it: only for who asks for the stream's offer."""
    awaited = _projects[request.path_params["project"]].awaited
    said = []
    for item in _batches.decode(await request.body()).results:
        result = awaited.pop(item.tool_id, None)
        if result is not None and not result.done():
            result.set_result(b'{"status":"%b","result":%b}' % (item.status.encode(), item.result))
        said.append(Verdict(item.tool_id, 200, "received"))
    return _json(BatchReply(success=True, results=said))


async def wait_connected(request: Request) -> Response:
    """When the project's stream was opened, by the clock that all processes of this machine share."""
    project = _projects[request.path_params["project"]]
    await asyncio.wait_for(project.connected.wait(), CALL_TIMEOUT_S)
    return _json({"connected_at": project.connected_at})


async def drive(request: Request) -> Response:
    project = _projects[request.path_params["project"]]
    order = msgspec.json.decode(await request.body(), type=Drive)
    slots = asyncio.Semaphore(order.in_flight)
    latencies: list[float] = []
    failures: list[str] = []
    last = b""

    async def one(number: int) -> None:
        nonlocal last
        async with slots:
            params = _numbered(order, number)
            began = time.perf_counter()
            body = await asyncio.wait_for(project.signal(order.tool_name, params), CALL_TIMEOUT_S)
            latencies.append(time.perf_counter() - began)
        last = body
        if _COMPLETED not in body[:64]:
            failures.append(body[:400].decode("utf-8", "replace"))

    began = time.perf_counter()
    await asyncio.gather(*[one(number) for number in range(order.count)])
    wall_s = time.perf_counter() - began
    return _json(
        {
            "latencies_s": latencies,
            "wall_s": wall_s,
            "failures": failures[:3],
            "result_bytes": len(last),
            "last_result": last[:4096].decode("utf-8", "replace"),
        }
    )


def _numbered(order: Drive, number: int) -> dict[str, Any]:
    if order.distinct is None:
        return order.tool_params
    value = order.tool_params[order.distinct].replace("{n}", str(number)).replace("{t}", f"{time.time():.6f}")
    return {**order.tool_params, order.distinct: value}


app = Starlette(
    routes=[
        Route("/my/projects/{project}/chat/stream", stream),
        Route("/my/projects/{project}/tools/{tool_id}/result", take_result, methods=["POST"]),
        Route("/my/projects/{project}/tools/results", take_results, methods=["POST"]),
        Route("/drive/{project}", drive, methods=["POST"]),
        Route("/connected/{project}", wait_connected),
    ]
)


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(
            app, log_level="error", access_log=False, timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=1
        )
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
