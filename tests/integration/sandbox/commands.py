"""Commands for the sandbox, and ways to find what they left behind."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from client_agent.sandbox import Access, Job, Outcome, Sandbox

OpenSandbox = Callable[..., Awaitable[Sandbox]]
DEADLINE_S = 10.0

# A child, a grandchild and one in a session of its own, all deaf to SIGTERM, SIGHUP and SIGINT, then says so.
FORKING = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
def sleeper(): time.sleep(120); os._exit(0)
if os.fork() == 0: sleeper()
for alone in (False, True):
    parent = os.fork()
    if parent == 0:
        if alone: os.setsid()
        if os.fork() == 0: sleeper()
        os._exit(0)
    os.waitpid(parent, 0)
print("forked", flush=True)
"""


def python_job(sandbox: Sandbox, code: str, *args: str, **fields: Any) -> Job:
    program = sandbox.find_program("python3")
    assert program is not None
    return Job(argv=(program, "-c", code, *args), **{"access": Access.READ_ONLY, **fields})


async def run_python(sandbox: Sandbox, code: str, *args: str, **fields: Any) -> Outcome:
    return await sandbox.run(python_job(sandbox, code, *args, **fields))


def processes_marked(mark: str) -> list[int]:
    """The processes of the whole machine that have the mark on their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(int(name))
    return found


async def wait_until_gone(mark: str) -> list[int]:
    """What is left after the deadline, which is far longer than anything should take."""
    end = time.monotonic() + DEADLINE_S
    while (left := processes_marked(mark)) and time.monotonic() < end:
        await asyncio.sleep(0.02)
    return left


class Listener:
    """Collects live output and can be waited on for a word."""

    def __init__(self, word: str = "") -> None:
        self.said: list[tuple[str, str]] = []
        self.heard = asyncio.Event()
        self._word = word

    def __call__(self, stream: str, text: str) -> None:
        self.said.append((stream, text))
        if self._word in self.text:
            self.heard.set()

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.said)
