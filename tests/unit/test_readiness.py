"""What a supervisor is told: ready, alive, stopping; and nothing where nobody asked."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_agent.readiness import Supervisor


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(20)
        yield receiver


def test_it_is_told_in_systemds_words(tmp_path: Path, listening: socket.socket) -> None:
    Supervisor({"NOTIFY_SOCKET": str(tmp_path / "notify")}).tell("READY=1", "STATUS=here")
    assert listening.recv(1000) == b"READY=1\nSTATUS=here"


def test_an_abstract_address_is_understood() -> None:
    name = f"client-agent-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name}")
        Supervisor({"NOTIFY_SOCKET": f"@{name}"}).tell("READY=1")
        assert receiver.recv(1000) == b"READY=1"


async def test_it_is_told_that_we_live_until_we_stop(tmp_path: Path, listening: socket.socket) -> None:
    supervisor = Supervisor({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"})
    assert supervisor.watchdog_s == 0.02
    with supervisor.watching():
        for _ in range(3):
            assert await asyncio.to_thread(listening.recv, 1000) == b"WATCHDOG=1"
    told = [b"WATCHDOG=1"]
    while told[-1] == b"WATCHDOG=1":
        told.append(listening.recv(1000))
    assert told[-1] == b"STOPPING=1"


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"NOTIFY_SOCKET": "/nowhere/at/all"},
        {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
    ],
)
def test_where_nobody_listens_nothing_is_told(env: dict[str, str]) -> None:
    supervisor = Supervisor(env)
    supervisor.tell("READY=1")
    assert supervisor.watchdog_s is None
