"""Linux: what a launcher is to build, and the daemon's end of its socket."""
# Plain strings go to the launcher; /tmp is the commands' own.
# ruff: noqa: PTH110, PTH112, PTH114, PTH115, PTH120, PTH202, S108

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from client_agent.bundle import LAUNCHER_WORD, is_bundle
from client_agent.errors import InvalidParameters, Unavailable
from client_agent.sandbox.environment import user_name
from client_agent.sandbox.jobs import Access, Ended, Limits, Network
from client_agent.sandbox.launcher.cell import HOME
from client_agent.sandbox.protected import COMMON_DIRECTORY, GUARDED_IN_GIT, WORKTREES, ProtectedPaths

MAX_REQUEST_BYTES = 150_000
START_TIMEOUT_S = 15
END_TIMEOUT_S = 0.5
_SEND_RETRY_S = 0.002
_MESSAGE_BYTES = 4096
_SMALL_FILE_BYTES = 1_000_000
_VAR_TMP = "/var/tmp"
_INSIDE_ID = 1000  # what the superuser's own id is called inside, where it has no power

SYSTEM_DIRECTORIES = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/run/current-system",
)  # fmt: skip
# Of /etc only what programs need and everyone may know.
_ETC_DIRECTORIES = (
    "alternatives",
    "ssl/certs",
    "pki/ca-trust",
    "pki/tls/certs",
    "crypto-policies",
    "fonts",
    "terminfo",
)
_ETC_FILES = (
    "ld.so.cache", "ld.so.conf", "nsswitch.conf", "host.conf", "hosts", "services", "protocols", "gai.conf",
    "localtime", "timezone", "os-release", "lsb-release", "debian_version", "redhat-release", "mime.types", "magic",
    "inputrc", "gitconfig", "ssl/openssl.cnf", "pki/tls/openssl.cnf", "login.defs", "xattr.conf", "manpath.config",
)  # fmt: skip
SHOWN_IN_ETC = tuple(f"/etc/{name}" for name in (*_ETC_DIRECTORIES, *_ETC_FILES))


def launcher_command(module: Literal["main", "alone"], fd: int) -> list[str]:
    """How a launcher is started: in a bare interpreter that finds the launcher's few files and nothing else."""
    told = [str(Path(__file__).parent), str(fd)]
    if is_bundle():
        return [sys.executable, f"{LAUNCHER_WORD}{module}", *told]
    start = f"import sys; sys.path.append(sys.argv[1]); from launcher.{module} import main; main()"
    return [sys.executable, "-I", "-S", "-c", start, *told]


class Profile(msgspec.Struct, frozen=True):
    """What commands of one launcher have in common."""

    access: Access
    network: Network


def visible_directories(toolchains: Sequence[Path]) -> tuple[Path, ...]:
    """Where commands can find programs, links resolved."""
    paths = (*map(Path, SYSTEM_DIRECTORIES), *toolchains)
    existing = (Path(os.path.realpath(path)) for path in paths if path.exists())
    return tuple(dict.fromkeys(existing))


def compose_plan(
    workspace: Path,
    profile: Profile,
    limits: Limits,
    toolchains: Sequence[Path],
    *,
    protected: ProtectedPaths,
    placeholders: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Everything a launcher needs to know, as plain values."""
    found = workspace.stat()
    read_only, links = _system(toolchains)
    if not str(workspace).startswith(f"{_VAR_TMP}/"):
        links.append((_VAR_TMP, "/tmp"))
    writable = profile.access is Access.WRITABLE
    plan = {
        "workspace": str(workspace),
        "workspace_id": (found.st_dev, found.st_ino),
        "writable": writable,
        "network": profile.network is Network.ON,
        "uid": os.getuid() or _INSIDE_ID,
        "gid": os.getgid() or _INSIDE_ID,
        "files": _etc_files(profile.network),
        "links": links,
        "read_only": read_only,
        "hidden": sorted(str(workspace / path) for path in protected.hidden),
        "pinned": [],
        "locked": [],
        "repositories": [],
        "barred": [],
        "beneath_tmp": _outermost([path for path in (*read_only, str(workspace)) if path.startswith("/tmp/")]),
        "tmp_bytes": limits.tmp_bytes,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "rlimits": resource_limits(limits),
        "command_rlimits": command_limits(limits),
        "proc": "",  # left to the launcher, which knows the kernel
    }
    if writable:
        plan["barred"] = sorted(str(workspace / name) for name in placeholders - protected.hidden)
        pinned = _guard_git(workspace, protected.git - placeholders, plan)
        pinned.update(*(_parents(workspace / path, workspace) for path in protected.tied))
        plan["pinned"] = sorted(map(str, pinned))
    return plan


def _system(toolchains: Sequence[Path]) -> tuple[list[str], list[tuple[str, str]]]:
    """The machine's programs and libraries: directories to show, and links to make where the machine has links."""
    shown: list[str] = []
    links: list[tuple[str, str]] = []
    for path in SYSTEM_DIRECTORIES:
        if os.path.islink(path) and os.path.dirname(path) == "/":
            links.append((path, os.readlink(path)))
        elif os.path.exists(path):
            shown.append(path)
    shown += [f"/etc/{name}" for name in _ETC_DIRECTORIES if os.path.isdir(f"/etc/{name}")]
    for toolchain in toolchains:
        real = os.path.realpath(toolchain)
        if os.path.exists(real):
            shown.append(real)
            if real != str(toolchain):
                links.append((str(toolchain), real))
    return _outermost(shown), links


def _outermost(paths: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(path.startswith(outer + "/") for outer in kept):
            kept.append(path)
    return kept


def _etc_files(network: Network) -> list[tuple[str, bytes]]:
    uid, gid, name = os.getuid() or _INSIDE_ID, os.getgid() or _INSIDE_ID, user_name()
    files = [
        (
            "/etc/passwd",
            f"root:x:0:0:root:/root:/usr/sbin/nologin\n{name}:x:{uid}:{gid}:{name}:{HOME}:/bin/sh\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n".encode(),
        ),
        ("/etc/group", f"root:x:0:\n{name}:x:{gid}:\nnogroup:x:65534:\n".encode()),
    ]
    names = (*_ETC_FILES, "resolv.conf") if network is Network.ON else _ETC_FILES
    for path in (f"/etc/{name}" for name in names):
        try:
            if os.path.getsize(path) <= _SMALL_FILE_BYTES:
                files.append((path, Path(path).read_bytes()))
        except OSError:
            continue
    return files


def _guard_git(workspace: Path, found: set[str], plan: dict[str, Any]) -> set[Path]:
    """What runs on its own account when the user next calls git may be read, and not changed.

    Returns what is to be pinned: a mount point can be neither moved nor removed, so that pinning the directories above
    keeps all of it in its place.
    """
    pinned: set[Path] = set()
    for relative in sorted(found):
        path = workspace / relative
        pinned |= _parents(path, workspace)
        if not path.is_dir():
            plan["locked"].append(str(path))
            continue
        pinned.add(path)
        plan["repositories"].append(str(path))
        there = [name for name in GUARDED_IN_GIT if (path / name).exists()]
        if path.parent.name != WORKTREES and not {"hooks", "config", COMMON_DIRECTORY}.issubset(there):
            raise Unavailable(f"{relative!r} changes while it is to be guarded")
        plan["locked"] += [str(path / name) for name in there]
    return pinned


def _parents(path: Path, workspace: Path) -> set[Path]:
    """The directories between a path and the workspace."""
    return {parent for parent in path.parents if parent != workspace and parent.is_relative_to(workspace)}


def fill_git(workspace: Path, found: set[str]) -> list[str]:
    """Makes what git would read and nobody has made yet: only what is there can be kept from being made.

    Returns the repositories that have their hooks and configuration in themselves.
    """
    filled: list[str] = []
    for relative in sorted(found):
        path = workspace / relative
        try:
            _refuse_links(workspace, relative, *(f"{relative}/{name}" for name in GUARDED_IN_GIT))
            if path.is_dir() and _fill_repository(path):
                filled.append(relative)
        except PermissionError:
            raise Unavailable(f"{relative!r} cannot be used, so that it could not be guarded") from None
    return filled


def _refuse_links(workspace: Path, *names: str) -> None:
    for name in names:
        if os.path.islink(workspace / name):
            raise Unavailable(f"{name!r} is a symbolic link, which cannot be kept from being replaced")


def _fill_repository(path: Path) -> bool:
    is_whole = path.parent.name != WORKTREES  # a worktree's hooks and configuration are those of its repository
    common = path if is_whole else path.parent.parent
    if is_whole:
        (path / "hooks").mkdir(exist_ok=True)
        _make_empty(path / "config")
    config = common / "config"
    if config.is_file() and b"worktreeconfig" in config.read_bytes().lower():
        _make_empty(path / "config.worktree")
    return is_whole


def _make_empty(path: Path) -> None:
    """Unless something has the name: nothing that is there is followed."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def resource_limits(limits: Limits) -> dict[str, tuple[int, int]]:
    return {
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_FSIZE": (limits.file_bytes, limits.file_bytes),
        # For all commands of a launcher together; each one's own number is watched.
        "RLIMIT_NPROC": (4 * limits.processes, 4 * limits.processes),
        "RLIMIT_CPU": (limits.cpu_s, -1),
    }


def command_limits(limits: Limits) -> dict[str, tuple[int, int]]:
    """For the command alone, set as soon as it is started: they could be too tight for its launcher."""
    return {
        "RLIMIT_NOFILE": (limits.open_files, limits.open_files),
        "RLIMIT_DATA": (limits.memory_bytes, limits.memory_bytes),
        "RLIMIT_CPU": (limits.cpu_s, limits.cpu_s + 1),
    }


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Launcher:
    """A launcher process and the commands it runs. It dies with this process, and they with it."""

    def __init__(self) -> None:
        self.landlock_abi = 0
        self.proc = ""
        self._loop = asyncio.get_running_loop()
        self._socket, self._far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: asyncio.Future[str] = self._loop.create_future()
        self._running: dict[int, asyncio.Future[Ended]] = {}
        self._calls = 0

    @property
    def is_alive(self) -> bool:
        return self._socket.fileno() >= 0

    @property
    def running(self) -> int:
        return len(self._running)

    async def start(self, plan: dict[str, Any]) -> None:
        """Starts it and waits until its first cells are made; Unavailable, with the kernel's reason, when it cannot."""
        with self._far_end as far_end:
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - must be a child of this thread, see launcher.main
                launcher_command("main", far_end.fileno()),
                pass_fds=(far_end.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        self._loop.add_reader(self._socket, self._receive)
        await self._send(marshal.dumps(plan), ())
        try:
            answer = await asyncio.wait_for(asyncio.shield(self._ready), START_TIMEOUT_S)
        except TimeoutError:
            answer = "refused it did not answer in time"
        if not answer.startswith("ready "):
            await self.close()
            raise Unavailable(f"commands cannot be confined here: {answer.removeprefix('refused ')}")
        _, abi, self.proc = answer.split(" ")
        self.landlock_abi = int(abi)

    async def run(
        self,
        argv: Sequence[str],
        environment: dict[str, str],
        directory: str,
        fds: Sequence[int],
        *,
        is_lasting: bool = False,
    ) -> tuple[int, asyncio.Future[Ended]]:
        """Starts a command with these as stdin, stdout and stderr. The future tells that it and its tree are gone."""
        self._calls += 1
        call = self._calls
        request = marshal.dumps(("run", call, list(argv), environment, directory, is_lasting))
        if len(request) > MAX_REQUEST_BYTES:
            raise InvalidParameters(f"the command line has more than {MAX_REQUEST_BYTES} bytes")
        ended: asyncio.Future[Ended] = self._loop.create_future()
        self._running[call] = ended
        await self._send(request, fds)
        return call, ended

    async def kill(self, call: int) -> None:
        if self.is_alive and call in self._running:
            await self._send(marshal.dumps(("kill", call)), ())

    async def close(self) -> None:
        """Ends the launcher and all it runs; returns when they are gone."""
        self._disconnect()  # by which it ends itself
        if self._process is not None:
            process, self._process = self._process, None
            waiting = asyncio.ensure_future(asyncio.to_thread(_await_end, process))
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                await waiting  # not for long, and nobody else would
                raise

    async def close_when_idle(self) -> None:
        """Ends the launcher once all it runs has ended by itself; at once when this is cancelled."""
        try:
            while self._running:
                await asyncio.wait(list(self._running.values()))
        finally:
            await self.close()

    async def _send(self, data: bytes, fds: Sequence[int]) -> None:
        while True:
            try:
                socket.send_fds(self._socket, [data], list(fds))
            except BlockingIOError:
                await asyncio.sleep(_SEND_RETRY_S)
            except OSError:
                raise Unavailable("the sandbox has ended") from None
            else:
                return

    def _receive(self) -> None:
        while True:
            try:
                data = self._socket.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._disconnect()
                return
            self._take(data.decode("utf-8", "replace"))

    def _take(self, message: str) -> None:
        word, _, rest = message.partition(" ")
        if word != "ended":
            if not self._ready.done():
                self._ready.set_result(message)
            return
        call, status, reason = rest.split(" ")
        kind, _, number = reason.partition(":")
        future = self._running.pop(int(call), None)
        if future is not None and not future.done():
            future.set_result(Ended(int(status), kind, int(number or 0)))

    def _disconnect(self) -> None:
        if self.is_alive:
            self._loop.remove_reader(self._socket)
            self._socket.close()
        if not self._ready.done():
            self._ready.set_result("refused it ended at once")
        for future in self._running.values():
            if not future.done():
                future.set_result(Ended(9, "stopped"))
        self._running.clear()
