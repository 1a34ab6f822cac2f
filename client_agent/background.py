"""The daemon as a process in the background: found, started, stopped.

Whether one runs is what the lock of the state directory says, and whether it works is what it answers at its door. A
process id by itself is not trusted: numbers are used again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from client_agent.bundle import own_command
from client_agent.errors import ClientAgentError
from client_agent.journal.database import prepare_directory
from client_agent.journal.lock import LOCK_FILE, find_holder
from client_agent.local_api.client import ANSWER_S, NoDaemon, connecting

START_LOG = "start.log"
_LOOK_S = 0.02
_TAIL_BYTES = 4_000


class Found(msgspec.Struct, frozen=True):
    """A daemon that holds the state directory; `told` is its status, None while it does not answer."""

    pid: int
    told: dict[str, Any] | None


class NotStarted(ClientAgentError):
    """The daemon ended before it was ready. `exit_code` is its own."""

    code = "not_started"

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class NotStopped(ClientAgentError):
    """The daemon is still there."""

    code = "not_stopped"


def find(state_dir: Path) -> Found | None:
    """The daemon of this directory, if there is one."""
    if (told := ask_status(state_dir)) is not None:
        return Found(pid=told["pid"], told=told)
    holder = find_holder(state_dir)
    return None if holder is None else Found(pid=holder, told=None)


def ask_status(state_dir: Path, *, glance: bool = True) -> dict[str, Any] | None:
    """What the daemon says of itself; at a glance, only what it has at hand. None when nobody answers."""
    try:
        with connecting(state_dir, timeout_s=ANSWER_S) as daemon:
            told: dict[str, Any] = daemon.request("status", glance=glance)
            return told
    except NoDaemon:
        return None


def start(state_dir: Path, config_path: Path, *, timeout_s: float) -> dict[str, Any]:
    """Starts a daemon that outlives us, and returns its status once it answers. Raises NotStarted."""
    prepare_directory(state_dir)
    return wait_until_ready(state_dir, timeout_s=timeout_s, child=_spawn(state_dir, config_path))


def wait_until_ready(
    state_dir: Path, *, timeout_s: float, child: subprocess.Popen[bytes] | None = None
) -> dict[str, Any]:
    """The status of a daemon that was just started, by us or by a service manager. Raises NotStarted."""
    for _ in _looks(timeout_s):
        if child is not None and child.poll() is not None:
            raise NotStarted(_last_words(state_dir) or "the daemon ended without a word", child.returncode)
        if (told := ask_status(state_dir)) is not None:
            return told
    said = f": {_last_words(state_dir)}" if child is not None else ""
    raise NotStarted(f"the daemon is not ready after {timeout_s:g} s; it goes on trying{said}", 1)


def _spawn(state_dir: Path, config_path: Path) -> subprocess.Popen[bytes]:
    """In a session of its own, at the root of the disk, with no terminal and no descriptor of ours."""
    places = {"CLIENT_AGENT_CONFIG": str(config_path.absolute()), "CLIENT_AGENT_STATE_DIR": str(state_dir.absolute())}
    apart: dict[str, Any] = {"start_new_session": True, "cwd": "/"}
    if sys.platform == "win32":  # written from the documentation, never run there
        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        apart = {"creationflags": flags, "cwd": state_dir}
    descriptor = os.open(state_dir / START_LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as output:  # noqa: PTH123
        return subprocess.Popen(  # noqa: S603 - our own program
            [*own_command(), "run", "--until-ready"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **places},
            **apart,
        )


def _last_words(state_dir: Path) -> str:
    """Why it ended, without what it said before; all it said where it gave no reason."""
    words = (state_dir / START_LOG).read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace")
    return f"\n{words}".rpartition("\nclient-agent: ")[2].strip()


def stop(state_dir: Path, *, timeout_s: float, on_wait: Callable[[dict[str, Any]], None]) -> None:
    """Asks the daemon to end, and waits until it has let go of the directory. Raises NoDaemon, NotStopped.

    `on_wait` is told, about once a second, what it is still doing.
    """
    with connecting(state_dir, timeout_s=ANSWER_S) as daemon:
        daemon.request("stop")
    told_at = time.monotonic()
    for now in _looks(timeout_s):
        if find_holder(state_dir) is None:
            return
        if now - told_at >= 1 and (told := ask_status(state_dir)) is not None:
            told_at = now
            on_wait(told)
    raise NotStopped(f"the daemon has not stopped after {timeout_s:g} s: `client-agent stop --force` ends it at once")


def kill(state_dir: Path, *, timeout_s: float) -> int:
    """Ends whoever holds the directory, at once; its process id. Raises NoDaemon, NotStopped."""
    import psutil  # type: ignore[import-untyped]

    holder = find_holder(state_dir)
    if holder is None:
        raise NoDaemon("no daemon is running")
    try:
        process = psutil.Process(holder)
        if holder == 0 or not _has_open(process, state_dir / LOCK_FILE):
            raise NotStopped(f"process {holder} is not the one that holds {state_dir}: nothing was ended")
        process.kill()
    except psutil.Error as error:
        raise NotStopped(f"process {holder} cannot be ended: {error}") from None
    for _ in _looks(timeout_s):
        if find_holder(state_dir) is None:
            return holder
    raise NotStopped(f"process {holder} was told to end and is still there: the system is waiting for a disk or device")


def _has_open(process: Any, path: Path) -> bool:
    if os.name == "nt":  # it cannot be asked there; but one that took over the number began after the file was written
        return bool(process.create_time() <= path.stat().st_mtime)
    return any(os.path.samefile(each.path, path) for each in process.open_files())  # noqa: PTH121


def _looks(timeout_s: float) -> Iterator[float]:
    """Moments to look again, until the time is over."""
    until = time.monotonic() + timeout_s
    while (now := time.monotonic()) < until:
        yield now
        time.sleep(_LOOK_S)
