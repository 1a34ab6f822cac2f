"""One command without namespaces: confined by Landlock and seccomp, its orphans gathered and ended.

For machines whose kernel forbids user namespaces. Started anew for every command. The thread that starts the command
shuts itself in; this process stays outside, adopts whatever the command leaves behind, and ends it.
"""
# Nothing is imported that can be spared; the daemon is trusted.
# ruff: noqa: PTH123, PTH208, S302

from __future__ import annotations

import _socket
import _thread
import errno
import marshal
import os
import select
import signal
import sys
from typing import Any

from . import landlock, limits, seccomp, syscalls

_MESSAGE_BYTES = 1 << 18
_DEFAULT_SIGNALS = tuple(number for number in range(1, 65) if number not in (9, 19, 32, 33))


def main() -> None:
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, int(sys.argv[-1]))
    os.set_inheritable(socket.fileno(), False)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: _sweep() or os._exit(1))  # type: ignore[func-returns-value]
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    data, ancillary, _, _ = socket.recvmsg(_MESSAGE_BYTES, _socket.CMSG_LEN(12), _socket.MSG_CMSG_CLOEXEC)
    if not data:
        return
    plan = marshal.loads(data)
    fds = [fd for _, _, payload in ancillary for fd in memoryview(payload).cast("i")]
    result: list[Any] = []
    done = _thread.allocate_lock()
    done.acquire()
    limits.apply(plan["rlimits"])
    _thread.start_new_thread(_start_confined, (plan, fds, result, done))
    done.acquire()
    for fd in fds:
        os.close(fd)
    if isinstance(result[0], OSError):
        socket.send(f"ended 1 0 failed:{result[0].errno or errno.EIO}".encode())
        return
    limits.apply(plan["command_rlimits"], result[0])
    status = _wait(socket, result[0])
    _sweep()
    socket.send(f"ended 1 {status} exit".encode())


def _start_confined(plan: dict[str, Any], fds: list[int], result: list[Any], done: Any) -> None:
    try:
        abi = landlock.supported_abi()
        rules = landlock.Ruleset(abi)
        for path in plan["readable"]:
            rules.allow_path(path, landlock.READ)
        for path in plan["listed"]:
            rules.allow_path(path, landlock.READ_DIR)
        for path in plan["devices"]:
            rules.allow_path(path, landlock.READ_FILE | landlock.WRITE_FILE)
        rules.allow_path(plan["tmp"], landlock.write_rights(abi))
        os.chdir(plan["directory"])
        rules.enforce()
        seccomp.enforce(seccomp.build_filter(syscalls.MACHINE, internet=False))
        seccomp.enforce(seccomp.build_cell_filter(syscalls.MACHINE))
        pid = os.posix_spawn(
            plan["argv"][0],
            plan["argv"],
            plan["environment"],
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)],
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
        result.append(pid)
    except OSError as error:
        result.append(error)
    done.release()


def _wait(socket: _socket.socket, pid: int) -> int:
    """Waits for the command. Any word from the daemon, or its silence for good, ends it."""
    pidfd = os.pidfd_open(pid)
    ready = select.select([pidfd, socket.fileno()], [], [])[0]
    if pidfd not in ready:
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _sweep() -> None:
    """Ends every process that descends from here: whose parent dies becomes our own child, and is found next time."""
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as listed:
            found += map(int, listed.read().split())
    return found
