"""A whole run against one server, or one client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import msgspec

from client_agent.conformance import client_cases, server_call_cases, server_cases
from client_agent.conformance.api import ServerApi
from client_agent.conformance.cases import Outcome
from client_agent.conformance.client import ClientUnderTest
from client_agent.conformance.peer import Peer
from client_agent.conformance.server import ServerUnderTest
from client_agent.errors import ConfigError, LinkError
from client_agent.server.auth import issue_token

PATIENCE_S = 15.0
CONNECT_PATIENCE_S = 300.0
USER = "conformance"
STOP_GRACE_S = 10.0


class Tokens(msgspec.Struct, frozen=True):
    """Whom we can be to a server."""

    user: str
    agent: str | None = None
    stranger: str | None = None


class Meeting(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client is expected."""

    url: str
    project_id: str
    token: str
    workspace: Path


async def try_server(
    url: str, project_id: str, tokens: Tokens, *, only: str = "*", patience_s: float = PATIENCE_S
) -> AsyncIterator[Outcome]:
    """Every case against the server at this address. Raises LinkError when nothing answers there."""
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=url.rstrip("/"), limits=limits, timeout=60, trust_env=False) as http:
        try:
            await http.get("/")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise LinkError(f"{url} cannot be reached: {error}") from None
        user = ServerApi(http, project_id, tokens.user, patience_s)
        server = ServerUnderTest(
            user=user,
            agent=user.using(tokens.agent) if tokens.agent else None,
            stranger=user.using(tokens.stranger) if tokens.stranger else None,
            other_project=f"{project_id}-other",
        )
        for suite in (server_cases.suite, server_call_cases.suite):
            async for outcome in suite.run(server, only=only):
                yield outcome


async def try_client(
    project_id: str,
    workspace: Path | None = None,
    *,
    port: int = 0,
    command: str | None = None,
    only: str = "*",
    on_meeting: Callable[[Meeting], None] | None = None,
    connect_patience_s: float = CONNECT_PATIENCE_S,
) -> AsyncIterator[Outcome]:
    """Every case against the client that connects, or that `command` starts. Raises LinkError when none comes."""
    async with contextlib.AsyncExitStack() as stack:
        directory = workspace or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
        if not directory.is_dir() or any(directory.iterdir()):
            raise ConfigError(f"{directory}: expected an empty directory: files are made and changed in it")
        token = issue_token(os.urandom(24).hex(), USER)
        peer = await stack.enter_async_context(Peer(project_id, token, port))
        meeting = Meeting(url=peer.url, project_id=project_id, token=token, workspace=directory.absolute())
        if on_meeting is not None and command is None:
            on_meeting(meeting)
        if command is not None:
            await stack.enter_async_context(_started(command, meeting))
        client = ClientUnderTest(peer=peer, workspace=directory, user_id=USER)
        try:
            await peer.wait_for_stream(connect_patience_s)
        except TimeoutError:
            raise LinkError(f"no client connected within {connect_patience_s:g} s") from None
        async for outcome in client_cases.suite.run(client, only=only):
            yield outcome


@contextlib.asynccontextmanager
async def _started(command: str, meeting: Meeting) -> AsyncIterator[None]:
    """The client as a process of its own, with the token in CLIENT_AGENT_TOKEN; ended with the run."""
    places = {"url": meeting.url, "project": meeting.project_id, "workspace": str(meeting.workspace)}
    try:
        words = [word.format(**places) for word in shlex.split(command)]
        process = await asyncio.create_subprocess_exec(
            *words,
            env={**os.environ, "CLIENT_AGENT_TOKEN": meeting.token},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
        )
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise ConfigError(f"the client cannot be started: {error}") from None
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_GRACE_S)
            except TimeoutError:
                process.kill()
                await process.wait()
