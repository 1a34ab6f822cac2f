"""Nothing that runs in the sandbox gets through the daemon's own door: not to the socket, and not to the page."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from client_agent.local_api.client import connecting
from client_agent.policy.paths import Protection
from client_agent.sandbox import Access, Job, Network, Sandbox, open_sandbox
from tests.integration.daemon.conftest import World, world

__all__ = ["world"]

KNOCK = """
import http.client, os, socket, sys
authority, state = sys.argv[1:]
for name in ("door.json", "door/socket"):
    try:
        open(os.path.join(state, name)).close()
        print("OPENED", name)
    except OSError:
        pass
try:
    socket.socket(socket.AF_UNIX).connect(os.path.join(state, "door/socket"))
    print("OPENED the socket")
except OSError:
    print("no socket")
try:
    for method, path, headers in (
        ("GET", "/", {}),
        ("GET", "/app.js", {"Origin": "http://" + authority}),
        ("POST", "/session", {"Origin": "http://" + authority, "Content-Type": "application/json"}),
        ("GET", "/live", {"Origin": "http://" + authority, "Upgrade": "websocket", "Connection": "Upgrade"}),
    ):
        page = http.client.HTTPConnection(authority, timeout=5)
        page.request(method, path, '{"ticket": "guess"}' if method == "POST" else None, headers)
        print(page.getresponse().status)
except OSError:
    print("no page")
"""


@pytest.fixture
async def sandbox(world: World) -> AsyncIterator[Sandbox]:
    opened = await open_sandbox(world.root, is_protected=Protection().find, search_path=os.environ["PATH"])
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    ("network", "heard"),
    [(Network.OFF, ["no socket", "no page"]), (Network.ON, ["no socket", "401", "401", "401", "401"])],
)
async def test_a_command_gets_nothing_at_the_door(
    world: World, sandbox: Sandbox, network: Network, heard: list[str]
) -> None:
    (world.root / "knock.py").write_text(KNOCK)
    python = sandbox.find_program("python3")
    assert python is not None
    async with world.running_daemon():
        authority = await asyncio.to_thread(authority_of, world)
        argv = (python, "knock.py", authority, str(world.state))
        outcome = await sandbox.run(Job(argv=argv, access=Access.WRITABLE, network=network))
    assert outcome.stderr == ""
    assert outcome.stdout.splitlines() == heard


def authority_of(world: World) -> str:
    with connecting(world.state) as daemon:
        return urlsplit(daemon.request("page.open")["url"]).netloc
