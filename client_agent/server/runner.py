"""Running the server: as a program, or inside another program's event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import FrameType
from typing import Any, TypeAlias

import uvicorn
from starlette.types import ASGIApp

from client_agent.errors import ConfigError
from client_agent.server.app import create_app
from client_agent.server.services import Services
from client_agent.server.settings import ServerSettings

_BACKLOG = 2048
Run: TypeAlias = Callable[[ServerSettings], AbstractAsyncContextManager[str]]
_KEEP_ALIVE_S = 75  # a connection closed sooner is often closed just as its client uses it again


class _Server(uvicorn.Server):
    """Ends streams and waiting agents before it waits for connections to close, which otherwise never would."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._services.release()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the business of whoever runs the loop."""
        yield


@asynccontextmanager
async def running(
    settings: ServerSettings, around: Callable[[ASGIApp], ASGIApp] = lambda app: app
) -> AsyncIterator[str]:
    """The server in the current event loop, listening when the block begins, gone when it ends. Gives its base URL.

    `around` may put something between the network and the application. Raises ConfigError when the database or the
    address cannot be used.
    """
    app = create_app(settings)
    listener = _listen(settings.host, settings.port)
    try:
        await app.state.services.open()
    except BaseException:
        listener.close()
        raise
    server = _Server(_configure(around(app), settings), app.state.services)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await server.ready.wait()
        yield _base_url(listener)
    finally:
        server.should_exit = True
        await serving


def serve(
    settings: ServerSettings, on_ready: Callable[[str], None] = lambda base_url: None, run: Run = running
) -> None:
    """Runs the server until SIGINT or SIGTERM. `on_ready` gets the base URL once it listens. Raises ConfigError."""
    asyncio.run(_serve(settings, on_ready, run))


async def _serve(settings: ServerSettings, on_ready: Callable[[str], None], run: Run) -> None:
    stop = asyncio.Event()
    with _signals_set(stop):
        async with run(settings) as base_url:
            on_ready(base_url)
            await stop.wait()


@contextmanager
def _signals_set(stop: asyncio.Event) -> Iterator[None]:
    """`signal.signal` rather than the loop's own way, which Windows does not have."""
    loop = asyncio.get_running_loop()

    def handle(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop.set)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _configure(app: Any, settings: ServerSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.shutdown_grace_s,
    )


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket that names its protocol: asyncio turns Nagle's delay off only where it is said to be TCP."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # elsewhere the option would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error}", code="address_unusable") from error
    return listener


def _base_url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
