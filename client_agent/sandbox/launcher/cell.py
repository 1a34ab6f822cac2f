"""A cell: the namespaces of a command, made before the command is known.

Namespaces, Landlock and seccomp belong to a thread, and what a thread starts inherits them. So each cell has a thread
of the launcher's, which shuts itself in for good, waits for a command, and starts it. The command gets all of it for
the price of a `posix_spawn`. A cell in which a command has left nothing at all, no process and no trace in the files
that are its own, is as good as a new one, and is used again.
"""
# Nothing is imported that can be spared; /tmp is the one being made.
# ruff: noqa: PTH102, PTH103, PTH120, S108

from __future__ import annotations

import _thread
import ctypes
import errno
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
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
)

HOME = "/tmp/.home"
_STACK_BYTES = 16 * 1024
_PROC_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY
_DEFAULT_SIGNALS = tuple(number for number in range(1, 65) if number not in (9, 19, 32, 33))


class Cell:
    """The namespaces of one command at a time, from empty through running to gone.

    Owned by the launcher's main thread.
    """

    def __init__(self, plan: dict[str, Any], *, is_lasting: bool = False) -> None:
        self.error: OSError | None = None
        self.init_pid = 0
        self.pid = 0
        self.proc_fd = -1
        self.call = -1
        self.reason = "exit"
        self.status = 0
        self._killed = False
        self._is_lasting = is_lasting
        self._own: list[int] = []  # the directories that a command may write to and nobody else sees
        self._untouched: list[Any] = []
        self._plan = plan
        self._job: tuple[Any, ...] = ()
        self._go = _thread.allocate_lock()
        self._done = _thread.allocate_lock()
        self._go.acquire()
        self._done.acquire()
        self._stack = ctypes.create_string_buffer(_STACK_BYTES)
        _thread.start_new_thread(self._live, ())
        try:
            self._wait()
        except OSError:
            self.kill()
            raise

    def run(self, call: int, job: tuple[Any, ...], fds: list[int]) -> None:
        """Starts a command: argv, environment, directory; with stdin, stdout, stderr."""
        self.call = call
        self.reason = "exit"
        self._job = (*job, fds)
        self._go.release()
        self._wait()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of a command that has ended: what it left would be children of the first process."""
        if self.proc_fd < 0:
            return False
        try:
            fd = os.open("1/task/1/children", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc_fd)
        except OSError:
            return False
        children = os.read(fd, 1)
        os.close(fd)
        return not children

    @property
    def is_like_new(self) -> bool:
        """Whether an empty cell can be used again: nobody could tell that it was used before."""
        return not self._is_lasting and not self._killed and self._look_at_own() == self._untouched

    def kill(self) -> None:
        """Ends everything in the cell, for good: when its first process dies, the kernel kills all others."""
        self._killed = True
        if self.init_pid:
            os.kill(self.init_pid, signal.SIGKILL)

    def leave(self) -> None:
        """Gives up the mounts, once the command is gone. On the cell's own thread, as this takes long."""
        for fd in (self.proc_fd, *self._own):
            if fd >= 0:
                os.close(fd)
        self._job = ()
        self._go.release()

    def _look_at_own(self) -> list[Any]:
        """What is in them, by name and number, and what they are: one put in another's place is not the same."""
        seen = []
        for fd in self._own:
            found = os.fstat(fd)
            with os.scandir(fd) as entries:
                names = sorted((entry.name, entry.inode()) for entry in entries)
            seen.append((found.st_mode, found.st_nlink, found.st_uid, found.st_gid, names, os.listxattr(fd)))
        return seen

    def _wait(self) -> None:
        """Waits for the cell's thread to do its part: the two never run at the same time."""
        self._done.acquire()
        if self.error is not None:
            raise self.error

    def _live(self) -> None:
        self._take(self._shut_in)
        while self.error is None:
            self._go.acquire()
            if not self._job:
                return
            self._take(self._spawn)

    def _take(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            self.error = error
        except ValueError as error:  # a NUL in an argument
            self.error = OSError(errno.EINVAL, str(error))
        finally:
            self._done.release()  # whatever happens here, the launcher must not wait for ever

    def _shut_in(self) -> None:
        syscalls.unshare(CLONE_FS | CLONE_NEWNS | CLONE_NEWPID)
        if self._plan["proc"] == "by_option":
            self._make_init()
            self._mount_proc_of_init()
        else:
            self._fork_init()
        if self._is_lasting:
            self._lock_repositories()
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

    def _lock_repositories(self) -> None:
        """Read-only as a whole, for a command that goes on for long.

        What guards a single file is gone from its name as soon as somebody outside puts another file there, as git does
        whenever the user changes a setting. The directory stays what it is.
        """
        for path in self._plan["repositories"]:
            syscalls.mount(path, path, None, MS_BIND | MS_REC)
            syscalls.mount("none", path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)

    def _mount_tmp(self) -> None:
        kept = [(path, syscalls.clone_mounts(path)) for path in self._plan["beneath_tmp"]]
        options = f"mode=1777,size={self._plan['tmp_bytes']}"
        syscalls.mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, options)
        os.mkdir(HOME, 0o700)
        for path, mounts in kept:
            os.makedirs(path, exist_ok=True)
            syscalls.attach_mounts(mounts, path)
            os.close(mounts)
        own = {"/tmp", HOME, *(parent for path, _ in kept for parent in _parents_in_tmp(path))}
        self._own = [os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for path in own]
        self._untouched = self._look_at_own()

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


def _parents_in_tmp(path: str) -> list[str]:
    """The directories between /tmp and what is shown beneath it: they are the command's as well."""
    parents = []
    while (path := os.path.dirname(path)) != "/tmp":
        parents.append(path)
    return parents
