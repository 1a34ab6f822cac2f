"""Finding a path with one system call that cannot leave the root: Linux 5.6 and later.

The kernel refuses to step above the directory it starts from (RESOLVE_BENEATH) and to take the links of /proc that are
doors rather than paths (RESOLVE_NO_MAGICLINKS), in one atomic resolution. With RESOLVE_CACHED (5.12) it also refuses to
wait for a disk.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

from client_agent.workspace.directory import Directory
from client_agent.workspace.failures import os_error
from client_agent.workspace.place import Place

assert sys.platform == "linux"  # noqa: S101  # for the type checker; `root` imports this nowhere else

_NUMBER = 437  # on every architecture of Linux that Python supports
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH, _CACHED = 0x02, 0x04, 0x08, 0x20
_DESCRIPTORS = "/proc/self/fd"


class _How(ctypes.Structure):
    """`struct open_how` of the kernel. Instances are constants: threads share them."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FIND = _How(os.O_PATH | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGICLINKS)
_FIND_CACHED = _How(os.O_PATH | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGICLINKS | _CACHED)
_ENTER = _How(os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY, 0, _BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS)
_HOW_BYTES = ctypes.sizeof(_How)

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall_at_once = ctypes.PyDLL(None, use_errno=True).syscall  # for what never waits: other threads need not be let in
for _function in (_syscall, _syscall_at_once):
    _function.restype = ctypes.c_long
    _function.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_How), ctypes.c_size_t)


class Handle(Place):
    """An object held by a descriptor that can do nothing but name it: finding it has no effect on it."""

    __slots__ = ("_descriptors", "_fd")

    def __init__(self, fd: int, relative: str, descriptors: int) -> None:
        self._fd = fd
        self._descriptors = descriptors
        self.relative = relative
        self.status = os.fstat(fd)

    def open(self) -> int:
        return os.open(str(self._fd), _READ, dir_fd=self._descriptors)

    def close(self) -> None:
        os.close(self._fd)


class Resolver:
    """Finds paths beneath one root. Raises OSError where the kernel refuses, whatever its reason."""

    def __init__(self, root: Directory, real: str) -> None:
        """Raises OSError where this kernel, a filter on system calls, or a missing /proc does not let it work."""
        self._root_fd = root.fd
        # Held open: looking this up by its name took longer than what is done there.
        self._descriptors = Directory(os.open(_DESCRIPTORS, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        self._real = real
        self._prefix = real.rstrip("/") + "/"
        try:
            self.find(".").close()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        self._descriptors.close()

    def find(self, path: str) -> Handle:
        return self._hold(_open(self._root_fd, path, _FIND))

    def find_cached(self, path: str) -> Handle:
        return self._hold(_open(self._root_fd, path, _FIND_CACHED))

    def enter(self, path: str) -> Directory:
        """The directory at this path, no part of which may be a link."""
        return Directory(_open(self._root_fd, path, _ENTER))

    def _hold(self, fd: int) -> Handle:
        try:
            relative = self._relative(os.readlink(str(fd), dir_fd=self._descriptors.fd))
            return Handle(fd, relative, self._descriptors.fd)
        except BaseException:
            os.close(fd)
            raise

    def _relative(self, real: str) -> str:
        if real == self._real:
            return "."
        # "(deleted)" may be part of a name or the kernel's remark: only the walk can tell.
        if not real.startswith(self._prefix) or real.endswith(" (deleted)"):
            raise os_error(errno.ESTALE)
        return real[len(self._prefix) :]


def _open(root_fd: int, path: str, how: _How) -> int:
    call = _syscall_at_once if how is _FIND_CACHED else _syscall
    fd: int = call(_NUMBER, root_fd, os.fsencode(path), how, _HOW_BYTES)
    if fd < 0:
        number = ctypes.get_errno()
        raise os_error(number)
    return fd
