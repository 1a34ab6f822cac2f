from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from client_agent.config import Link
from client_agent.link.connection import ServerConnection
from client_agent.link.credentials import Credentials
from tests.integration.link.peer import Peer

TOKEN = "secret-token-1"


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    async with Peer() as listening:
        yield listening


@pytest.fixture
async def other() -> AsyncIterator[Peer]:
    """Another origin."""
    async with Peer() as listening:
        yield listening


@pytest.fixture
def settings() -> Link:
    """Tries again within milliseconds."""
    return Link(reconnect_max_s=0.02, heartbeat_deadline_s=20, connect_timeout_s=10)


@pytest.fixture
def env() -> dict[str, str]:
    """The environment the token is read from; a test may change it."""
    return {"CLIENT_AGENT_TOKEN": TOKEN}


class NoKeyring:
    def get_password(self, service_name: str, username: str) -> str | None:
        return None

    def set_password(self, service_name: str, username: str, password: str) -> None:
        raise RuntimeError("there is none")

    def delete_password(self, service_name: str, username: str) -> None:
        raise RuntimeError("there is none")


@pytest.fixture
def connect(settings: Link, env: dict[str, str], tmp_path: Path):
    """Opens a connection to a server, with the settings of this test."""

    @asynccontextmanager
    async def opened(
        server: str, link: Link = settings, project: str = "p1", **more
    ) -> AsyncIterator[ServerConnection]:
        credentials = Credentials(server, tmp_path, env=env, load_keyring=NoKeyring)
        async with ServerConnection(link, server, project, credentials, **more) as connection:
            yield connection

    return opened
