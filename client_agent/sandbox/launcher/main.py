"""The launcher: enters its namespaces once, keeps cells ready, and starts one command in each.

It speaks with the daemon over one socket, and ends with it: when the daemon is gone, for whatever reason, the kernel
kills the launcher, and with it, the first process of its namespace, every command.
"""
# Nothing is imported that can be spared; the daemon is trusted.
# ruff: noqa: S302

from __future__ import annotations

import _socket
import _thread
import errno
import gc
import marshal
import os
import select
import signal
import sys
import time
from typing import Any

from . import landlock, limits, root, seccomp, syscalls
from .cell import Cell

CELLS_READY = 2
CELLS_KEPT = 8  # after a busy time, for a while
_KEPT_MS = 5000
WATCH_INTERVAL_MS = 50
_MESSAGE_BYTES = 1 << 18
_CAPABILITIES = 64


def main() -> None:
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, int(sys.argv[-1]))
    os.set_inheritable(socket.fileno(), False)
    plan = marshal.loads(socket.recv(_MESSAGE_BYTES))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        _enter_namespaces(plan)
        _prepare(plan)
        launcher = Launcher(socket, plan)
        launcher.make_cells()
    except OSError as error:
        socket.send(f"refused {error}".encode())
        os._exit(1)
    gc.freeze()
    launcher.serve()


def _enter_namespaces(plan: dict[str, Any]) -> None:
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    uid, gid = os.getuid(), os.getgid()
    flags = syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWIPC
    flags |= syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWCGROUP
    syscalls.unshare(flags if plan["network"] else flags | syscalls.CLONE_NEWNET)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{plan['uid']} {uid} 1"),
        ("gid_map", f"{plan['gid']} {gid} 1"),
    ):
        fd = os.open("/proc/self/" + name, os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, text.encode())
        os.close(fd)
    child = os.fork()
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if child:
        os.closerange(0, 1024)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
        os.waitpid(child, 0)
        os._exit(0)


def _prepare(plan: dict[str, Any]) -> None:
    has_proc = root.build_root(plan)
    if has_proc:
        _forbid_user_namespaces()
    if not plan["network"]:
        root.raise_loopback()
    _socket.sethostname("sandbox")
    root.seal_root()
    for capability in range(_CAPABILITIES):
        try:
            syscalls.prctl(syscalls.PR_CAPBSET_DROP, capability)
        except OSError:
            break
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    limits.apply(plan["rlimits"])
    plan["landlock_abi"] = landlock.supported_abi()
    plan["landlock_rules"] = _landlock_rules(plan)
    plan["filter"] = seccomp.build_cell_filter(syscalls.MACHINE)
    if not has_proc:
        plan["proc"] = "none"
    elif not plan["proc"]:
        plan["proc"] = "by_option" if _proc_takes_a_namespace() else "by_fork"
    seccomp.enforce(seccomp.build_filter(syscalls.MACHINE, internet=True))


def _landlock_rules(plan: dict[str, Any]) -> list[tuple[int, int]]:
    """What every cell allows: all may be read, the workspace perhaps written. Opened once, as that takes longest."""
    abi = plan["landlock_abi"]
    if abi < landlock.ABI_REFER:
        return []
    rights = {"/": landlock.READ, "/dev": landlock.READ | landlock.WRITE_FILE | landlock.TRUNCATE}
    if plan["writable"]:
        rights[plan["workspace"]] = landlock.write_rights(abi)
    return [(os.open(path, os.O_PATH | os.O_CLOEXEC), allowed) for path, allowed in rights.items()]


def _forbid_user_namespaces() -> None:
    fd = os.open("/proc/sys/user/max_user_namespaces", os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, b"0")
    os.close(fd)


def _proc_takes_a_namespace() -> bool:
    """Whether a /proc can be mounted for a namespace one is not in (Linux 6.17 and later)."""
    context = syscalls.syscall("fsopen", b"proc", syscalls.FSOPEN_CLOEXEC)
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        syscalls.syscall("fsconfig", context, syscalls.FSCONFIG_SET_FD, b"pidns", None, own)
    except OSError:
        return False
    finally:
        os.close(context)
        os.close(own)
    return True


class Launcher:
    """Serves one socket. One thing at a time: a cell's thread only works while this one waits for it."""

    def __init__(self, socket: _socket.socket, plan: dict[str, Any]) -> None:
        self._socket = socket
        self._plan = plan
        self._poll = select.poll()
        self._poll.register(socket.fileno(), select.POLLIN)
        self._ready: list[Cell] = []
        self._running: dict[int, Cell] = {}
        self._by_pidfd: dict[int, tuple[Cell, bool]] = {}
        self._buffer = bytearray(_MESSAGE_BYTES)
        self._unable = False
        self._next_watch = 0.0
        _thread.stack_size(256 * 1024)

    def serve(self) -> None:
        self._socket.send(f"ready {self._plan['landlock_abi']} {self._plan['proc']}".encode())
        while True:
            events = self._poll.poll(self._patience_ms())
            for fd, _ in events:
                if fd == self._socket.fileno():
                    self._receive()
                else:
                    self._reap(fd)
            if not events and not self._running:
                self._trim()
            if not events and not self._ready:
                self._try_to_make_one()
            self._watch()

    def _patience_ms(self) -> int | None:
        """How long to wait for something to happen. Cells are made only while nobody waits for an answer."""
        if not self._ready and not self._unable:
            return 0
        if self._running:
            return WATCH_INTERVAL_MS
        return _KEPT_MS if len(self._ready) > CELLS_READY else None

    def make_cells(self) -> None:
        """Those that are ready before anything is asked for."""
        while len(self._ready) < CELLS_READY:
            self._ready.append(Cell(self._plan))

    def _try_to_make_one(self) -> None:
        try:
            self._ready.append(Cell(self._plan))
        except OSError:
            self._unable = True  # the next command makes its own cell, or is told why it cannot

    def _trim(self) -> None:
        """Gives up what a busy time has left over."""
        for cell in self._ready[CELLS_READY:]:
            self._give_up(cell)
        del self._ready[CELLS_READY:]

    def _receive(self) -> None:
        size, ancillary, _, _ = self._socket.recvmsg_into(
            [self._buffer], _socket.CMSG_LEN(12), _socket.MSG_CMSG_CLOEXEC
        )
        if not size:
            os._exit(0)
        fds = [fd for _, _, payload in ancillary for fd in memoryview(payload).cast("i")]
        word, call, *job = marshal.loads(self._buffer)  # what is behind the message's own end is not looked at
        if word == "run":
            *job, is_lasting = job
            self._run(call, tuple(job), fds, is_lasting=is_lasting)
        elif call in self._running:
            self._running[call].kill()

    def _run(self, call: int, job: tuple[Any, ...], fds: list[int], *, is_lasting: bool) -> None:
        try:
            is_common = self._ready and not is_lasting
            cell = self._ready.pop(0) if is_common else Cell(self._plan, is_lasting=is_lasting)
        except OSError as error:  # out of namespaces, memory …
            self._socket.send(f"ended {call} 0 failed:{error.errno or errno.EIO}".encode())
            for fd in fds:
                os.close(fd)
            return
        self._unable = False
        self._running[call] = cell
        try:
            cell.run(call, job, fds)
        except OSError as error:
            cell.reason = f"failed:{error.errno or errno.EIO}"
            self._give_up(cell)
            return
        limits.apply(self._plan["command_rlimits"], cell.pid)
        self._follow(cell, cell.pid, is_init=False)

    def _give_up(self, cell: Cell) -> None:
        cell.kill()
        self._follow(cell, cell.init_pid, is_init=True)

    def _follow(self, cell: Cell, pid: int, *, is_init: bool) -> None:
        pidfd = os.pidfd_open(pid)
        self._by_pidfd[pidfd] = (cell, is_init)
        self._poll.register(pidfd, select.POLLIN)

    def _reap(self, pidfd: int) -> None:
        cell, is_init = self._by_pidfd.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        if not is_init:
            cell.status = os.waitpid(cell.pid, 0)[1]
            cell.pid = 0
            is_empty = cell.is_empty
            if is_empty:
                self._tell_end(cell)
            if is_empty and len(self._ready) < CELLS_KEPT and cell.is_like_new:
                self._ready.append(cell)
            else:
                self._give_up(cell)
            return
        os.waitpid(cell.init_pid, 0)
        cell.init_pid = 0
        self._tell_end(cell)
        cell.leave()

    def _tell_end(self, cell: Cell) -> None:
        """Says once that the command and all it started are gone."""
        if self._running.pop(cell.call, None) is not None:
            self._socket.send(f"ended {cell.call} {cell.status} {cell.reason}".encode())

    def _watch(self) -> None:
        now = time.monotonic()
        if now < self._next_watch:
            return
        self._next_watch = now + WATCH_INTERVAL_MS / 1000
        for cell in self._running.values():
            if cell.pid and cell.proc_fd >= 0 and cell.reason == "exit":
                reason = limits.passed(cell.proc_fd, self._plan["processes"], self._plan["memory_bytes"])
                if reason:
                    cell.reason = reason
                    cell.kill()
