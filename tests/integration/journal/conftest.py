from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import client_agent
from client_agent.errors import JournalError
from client_agent.journal.journal import Journal

SOURCE = Path(client_agent.__file__).parents[1]
PRELUDE = """
import asyncio, os, signal, sys
from pathlib import Path
from client_agent.errors import JournalError
from client_agent.journal.journal import Journal
from client_agent.journal.records import PostKind
from client_agent.policy.decision import Decision, Risk, Verdict
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState

RUN = Decision(verdict=Verdict.RUN, risk=Risk.MEDIUM, reasons=(), code="test")
ASK = Decision(verdict=Verdict.ASK, risk=Risk.MEDIUM, reasons=(), code="test")

def call(tool_id, **params):
    return Call(tool_id=tool_id, tool_name="write_file", tool_params=params or {"path": "a.txt", "content": "x"})

def say(*words):
    print(*words, flush=True)

def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def open_journal(state_dir: Path) -> Iterator[Callable[..., Journal]]:
    """Opens journals in the state directory; whatever is still open is closed at the end."""
    opened: list[Journal] = []

    def open_one(directory: Path = state_dir, **options: object) -> Journal:
        journal = Journal(directory, **options)  # type: ignore[arg-type]
        opened.append(journal)
        return journal

    yield open_one
    for journal in opened:
        with contextlib.suppress(JournalError):
            journal.close()


@pytest.fixture
def start_child() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a Python process with the names of PRELUDE; whatever still runs is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str, *arguments: object, wrapper: list[str] | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PRELUDE + textwrap.dedent(script), *map(str, arguments)]
        child = subprocess.Popen(
            [*(wrapper or []), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()
