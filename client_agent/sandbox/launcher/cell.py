"""A cell: the namespaces of one command, made before the command is known.

Namespaces, Landlock and seccomp belong to a thread, and what a thread starts inherits them. So each cell has a thread
of the launcher's, which shuts itself in for good, waits for its one command, starts it, and ends. The command gets all
of it for the price of a `posix_spawn`.
"""
# Nothing is imported that can be spared; /tmp is the one being made.
# ruff: noqa: PTH102, PTH103, S108

from __future__ import annotations

import _thread
import ctypes
import os
import signal
from collections.abc import Callable
from typing import Any

from . import landlock, seccomp, syscalls
from .syscalls import (
    CLONE_FILES,
    CLONE_FS,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_VM,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
)

HOME = "/tmp/.home"
_STACK_BYTES = 16 * 1024
_PROC_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY
_DEFAULT_SIGNALS = tuple(number for number in range(1, 65) if number not in (9, 19, 32, 33))


class Cell:
    """One command's namespaces, from empty through running to gone. Owned by the launcher's main thread."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.error: OSError | None = None
        self.init_pid = 0
        self.pid = 0
        self.proc_fd = -1
        self.call = -1
        self.reason = "exit"
        self.status = 0
        self._plan = plan
        self._job: tuple[Any, ...] = ()
        self._go = _thread.allocate_lock()
        self._done = _thread.allocate_lock()
        self._go.acquire()
        self._done.acquire()
        self._stack = ctypes.create_string_buffer(_STACK_BYTES)
        _thread.start_new_thread(self._live, ())
        self._wait()

    def run(self, call: int, job: tuple[Any, ...], fds: list[int]) -> None:
        """Starts the cell's one command: argv, environment, directory; with stdin, stdout, stderr."""
        self.call = call
        self._job = (*job, fds)
        self._go.release()
        self._wait()

    def kill(self) -> None:
        """Ends everything in the cell: when its first process dies, the kernel kills all others."""
        if self.init_pid:
            os.kill(self.init_pid, signal.SIGKILL)

    def leave(self) -> None:
        """Gives up the mounts, once the command is gone. On the cell's own thread, as this takes long."""
        if self.proc_fd >= 0:
            os.close(self.proc_fd)
        self._go.release()

    def _wait(self) -> None:
        """Waits for the cell's thread to do its part: the two never run at the same time."""
        self._done.acquire()
        if self.error is not None:
            raise self.error

    def _live(self) -> None:
        self._take(self._shut_in)
        if self.error is None:
            self._go.acquire()
            self._take(self._spawn)
            self._go.acquire()

    def _take(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            self.error = error
        self._done.release()

    def _shut_in(self) -> None:
        syscalls.unshare(CLONE_FS | CLONE_NEWNS | CLONE_NEWPID)
        if self._plan["proc"] == "by_option":
            self._make_init()
            self._mount_proc_of_init()
        else:
            self._fork_init()
        self._mount_tmp()
        if self._plan["proc"] != "none":
            self.proc_fd = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if self._plan["landlock_abi"] >= landlock.ABI_REFER:
            self._enforce_landlock()
        seccomp.enforce(self._plan["filter"])

    def _make_init(self) -> None:
        """The cell's first process: it shares the launcher's memory and does nothing but sleep, so it costs nothing.

        The command is the second process, since the first of a namespace is immune to most signals.
        """
        top = ctypes.c_void_p((ctypes.addressof(self._stack) + _STACK_BYTES) & ~15)
        sleep = ctypes.cast(syscalls.libc.pause, ctypes.c_void_p)
        flags = CLONE_VM | CLONE_FILES | syscalls.SIGCHLD  # a copy of the files would keep other commands' pipes open
        self.init_pid = syscalls.check(syscalls.libc.clone(sleep, top, flags, None), "clone")

    def _mount_proc_of_init(self) -> None:
        """A /proc of the cell's own processes, made from outside of it (Linux 6.17 and later)."""
        namespace = os.open("/proc/thread-self/ns/pid_for_children", os.O_RDONLY | os.O_CLOEXEC)
        context = syscalls.syscall("fsopen", b"proc", syscalls.FSOPEN_CLOEXEC)
        syscalls.syscall("fsconfig", context, syscalls.FSCONFIG_SET_FD, b"pidns", None, namespace)
        syscalls.syscall("fsconfig", context, syscalls.FSCONFIG_CMD_CREATE, None, None, 0)
        mounted = syscalls.syscall("fsmount", context, syscalls.FSMOUNT_CLOEXEC, _PROC_FLAGS)
        syscalls.attach_mounts(mounted, "/proc")
        for fd in (namespace, context, mounted):
            os.close(fd)

    def _fork_init(self) -> None:
        """The same for older kernels, where only a process inside can mount its /proc."""
        done_read, done_write = os.pipe()
        self.init_pid = os.fork()
        if self.init_pid == 0:
            self._be_init(done_write)
        os.close(done_write)
        answer = os.read(done_read, 16)
        os.close(done_read)
        if answer != b"ok":
            raise OSError(int(answer or b"5"), "the cell's /proc could not be mounted")

    def _be_init(self, done: int) -> None:
        answer = b"ok"
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans vanish when they end
            if self._plan["proc"] == "by_fork":
                syscalls.mount("proc", "/proc", "proc", _PROC_FLAGS)
        except OSError as error:
            answer = str(error.errno).encode()
        os.write(done, answer)
        os.closerange(0, 1024)
        while True:
            signal.pause()

    def _mount_tmp(self) -> None:
        kept = [(path, syscalls.clone_mounts(path)) for path in self._plan["beneath_tmp"]]
        options = f"mode=1777,size={self._plan['tmp_bytes']}"
        syscalls.mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, options)
        os.mkdir(HOME, 0o700)
        for path, mounts in kept:
            os.makedirs(path, exist_ok=True)
            syscalls.attach_mounts(mounts, path)
            os.close(mounts)

    def _enforce_landlock(self) -> None:
        rules = landlock.Ruleset(self._plan["landlock_abi"])
        for fd, rights in self._plan["landlock_rules"]:
            rules.allow(fd, rights)
        rules.allow_path("/tmp", landlock.write_rights(self._plan["landlock_abi"]))
        rules.enforce()

    def _spawn(self) -> None:
        argv, environment, directory, fds = self._job
        try:
            os.chdir(directory)
            self.pid = os.posix_spawn(
                argv[0],
                argv,
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)],
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULT_SIGNALS,
            )
        finally:
            for fd in fds:
                os.close(fd)
