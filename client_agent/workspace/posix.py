"""A directory held by descriptor, on Linux, macOS and other POSIX systems (never run on macOS).

Every name given here is one name, never a path; none is followed when it is a link.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from client_agent.errors import UserError
from client_agent.policy.decision import Reason
from client_agent.workspace.failures import os_error

assert sys.platform != "win32"  # noqa: S101  # for the type checker; windows.py has this class there

# Only to go through it, where the system has that: directories that may be searched but not read work too.
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO that was swapped in would wait for its other end.
_GUARD = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PROC_FD = "/proc/self/fd"
_UNNAMED: int = getattr(os, "O_TMPFILE", 0) if Path(_PROC_FD).is_dir() else 0
_RENAME_EXCHANGE = 2
_libc = ctypes.CDLL(None, use_errno=True)
# What says that this system or file system has no such operation, rather than that it failed.
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)


class Directory:
    """One directory, open until `close`."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def open_root(cls, path: Path) -> tuple[Directory, str]:
        """The directory at this path, and its real path."""
        try:
            real = os.path.realpath(path, strict=True)
            return cls(os.open(real, _SEARCH)), real
        except OSError as error:
            raise UserError(
                f"the workspace root {str(path)!r} cannot be opened: {error.strerror}", code="root_unavailable"
            ) from None

    @staticmethod
    def spelling_problem(path: str) -> Reason | None:
        """What this platform, and no other, makes of a path's text."""
        return None

    def close(self) -> None:
        os.close(self.fd)

    def is_still_at(self, real: str) -> bool:
        """Whether this path still names this directory."""
        with suppress(OSError):
            return os.path.samestat(os.stat(real), os.fstat(self.fd))  # noqa: PTH116
        return False

    def status(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False)

    def read_link(self, name: str) -> str:
        return os.readlink(name, dir_fd=self.fd)

    def enter(self, name: str) -> Directory:
        return Directory(os.open(name, _SEARCH | os.O_NOFOLLOW, dir_fd=self.fd))

    def open(self, name: str) -> int:
        """A descriptor to read; see that it is a regular file before reading."""
        return os.open(name, os.O_RDONLY | _GUARD, dir_fd=self.fd)

    @contextmanager
    def scan(self) -> Iterator[Iterator[os.DirEntry[str]]]:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            with os.scandir(fd) as entries:
                yield entries
        finally:
            os.close(fd)

    def is_writable(self, name: str) -> bool:
        return os.access(name, os.W_OK, dir_fd=self.fd, effective_ids=os.access in os.supports_effective_ids)

    def make(self, name: str) -> None:
        os.mkdir(name, dir_fd=self.fd)

    def create(self, name: str, mode: int) -> int:
        """A new file to write, which must not exist yet."""
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _GUARD, mode, dir_fd=self.fd)

    def create_unnamed(self, mode: int) -> int | None:
        """A new file without a name, which is gone if this process dies; None where there is no such thing."""
        if not _UNNAMED:
            return None
        try:
            return os.open(".", os.O_WRONLY | _UNNAMED | os.O_CLOEXEC, mode, dir_fd=self.fd)
        except OSError as error:
            if error.errno in (*_UNSUPPORTED, errno.EISDIR, errno.ENOENT):
                return None
            raise

    def name_unnamed(self, fd: int, name: str) -> None:
        """Gives a file of `create_unnamed` a name, which must not exist yet."""
        os.link(f"{_PROC_FD}/{fd}", name, dst_dir_fd=self.fd, follow_symlinks=True)

    def replace(self, source: str, name: str) -> None:
        os.rename(source, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def claim(self, source: str, name: str) -> None:
        """Renames to a name that must not exist yet; FileExistsError otherwise."""
        try:
            os.link(source, name, src_dir_fd=self.fd, dst_dir_fd=self.fd, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            with suppress(FileNotFoundError):  # a file system without hard links
                self.status(name)
                raise os_error(errno.EEXIST) from None
            self.replace(source, name)
        else:
            self.remove(source)

    def exchange(self, one: str, other: str) -> bool:
        """Swaps two names in one step; False where the system cannot."""
        if sys.platform == "linux" and hasattr(_libc, "renameat2"):
            names = os.fsencode(one), os.fsencode(other)
            if _libc.renameat2(self.fd, names[0], self.fd, names[1], _RENAME_EXCHANGE) == 0:
                return True
            number = ctypes.get_errno()
            if number not in _UNSUPPORTED:
                raise os_error(number)
        return False

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self.fd)

    def remove_directory(self, name: str) -> None:
        """Removes a directory that is empty; OSError otherwise."""
        os.rmdir(name, dir_fd=self.fd)

    def sync(self) -> None:
        """Puts names made here on the disk, where the directory may be read; else the system does so in its time."""
        with suppress(OSError):
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    @staticmethod
    def set_permissions(fd: int, mode: int) -> None:
        os.fchmod(fd, mode & 0o777)

    @staticmethod
    def keep_attributes(fd: int, old: os.stat_result) -> None:
        """Owner and permissions of the file that is replaced, as far as this user may give them.

        As with a write in place, set-user-id and set-group-id are dropped. Where the group cannot be kept, its
        permissions are not given to another one.
        """
        mode = stat.S_IMODE(old.st_mode) & 0o777
        if (old.st_uid, old.st_gid) != (os.geteuid(), os.fstat(fd).st_gid):
            try:
                os.fchown(fd, old.st_uid, old.st_gid)
            except OSError:
                try:
                    os.fchown(fd, -1, old.st_gid)
                except OSError:
                    mode &= ~0o070
        os.fchmod(fd, mode)
