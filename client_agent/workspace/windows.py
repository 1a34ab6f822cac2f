"""A directory held by handle, on Windows. Written from the documentation; never run there.

Windows has no names relative to a directory, but a directory that is held open without sharing its deletion can be
neither renamed nor removed, nor can any directory above it: while the handle is held, its path stays true. Every object
opened is asked for its own final path before it is used.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from client_agent.errors import UserError
from client_agent.policy.decision import Reason
from client_agent.workspace.failures import leads_outside, os_error

assert sys.platform == "win32"  # noqa: S101  # for the type checker; posix.py has this class elsewhere

import msvcrt  # noqa: E402
from ctypes import wintypes  # noqa: E402

_FILE_LIST_DIRECTORY = 0x1
_FILE_READ_ATTRIBUTES = 0x80
_SHARE_READ_WRITE = 0x1 | 0x2  # and not deletion
_OPEN_EXISTING = 3
_BACKUP_SEMANTICS = 0x0200_0000  # what opening a directory needs
_OPEN_REPARSE_POINT = 0x0020_0000  # the link or junction itself, not where it leads
_FILE_ATTRIBUTE_TAG_INFO = 9
_NAME_SURROGATE = 0x2000_0000  # the bit of a reparse tag that says: this stands for another name
_LONGEST_PATH = 32_768
_INVALID_HANDLE = ctypes.c_void_p(-1).value
_RESERVED = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{n}" for port in ("com", "lpt") for n in "0123456789¹²³"}
)

_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
_create_file = _kernel32.CreateFileW
_create_file.restype = wintypes.HANDLE
_create_file.argtypes = (
    wintypes.LPCWSTR,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.LPVOID,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.HANDLE,
)
_final_path = _kernel32.GetFinalPathNameByHandleW
_final_path.restype = wintypes.DWORD
_final_path.argtypes = (wintypes.HANDLE, wintypes.LPWSTR, wintypes.DWORD, wintypes.DWORD)
_file_information = _kernel32.GetFileInformationByHandleEx
_file_information.restype = wintypes.BOOL
_file_information.argtypes = (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
_close_handle = _kernel32.CloseHandle
_close_handle.argtypes = (wintypes.HANDLE,)


class _AttributeTag(ctypes.Structure):
    _fields_ = (("attributes", wintypes.DWORD), ("reparse_tag", wintypes.DWORD))


class Directory:
    """One directory, open until `close`."""

    __slots__ = ("_handle", "_path")

    def __init__(self, handle: int, path: str) -> None:
        self._handle = handle
        self._path = path

    @classmethod
    def open_root(cls, path: Path) -> tuple[Directory, str]:
        """The directory at this path, and its real path."""
        try:
            handle = _open_directory(str(path), 0)
            real = _ask_final_path(handle)
        except OSError as error:
            raise UserError(
                f"the workspace root {str(path)!r} cannot be opened: {error.strerror}", code="root_unavailable"
            ) from None
        return cls(handle, real), real

    @staticmethod
    def spelling_problem(path: str) -> Reason | None:
        """Streams (`file:stream`), devices (`NUL`, `COM1.txt`), and names whose trailing dots Windows would drop."""
        drive, rest = os.path.splitdrive(path)
        if drive and not rest.startswith(("/", "\\")):
            return Reason("path_disguised", "the path is relative to another directory of its drive")
        for part in rest.replace("\\", "/").split("/"):
            if ":" in part:
                return Reason("path_disguised", "the path names a stream of a file")
            if part.split(".")[0].rstrip(" ").casefold() in _RESERVED:
                return Reason("path_disguised", "the path names a device")
            if part not in ("", ".", "..") and part[-1] in ". ":
                return Reason("path_disguised", "a name in the path ends in a dot or a space")
        return None

    @property
    def fd(self) -> int:
        """The handle: Windows has no descriptors for directories."""
        return self._handle

    def close(self) -> None:
        _close_handle(self._handle)

    def is_still_at(self, real: str) -> bool:
        """True: a directory that is held can be neither moved nor removed."""
        return real == self._path

    def status(self, name: str) -> os.stat_result:
        status = os.lstat(self._at(name))
        if status.st_reparse_tag & _NAME_SURROGATE and not stat.S_ISLNK(status.st_mode):
            raise leads_outside(name)  # a junction: where it leads is not followed
        return status

    def read_link(self, name: str) -> str:
        return os.readlink(self._at(name))  # noqa: PTH115

    def enter(self, name: str) -> Directory:
        handle = _open_directory(self._at(name), _OPEN_REPARSE_POINT)
        try:
            _check_plain_directory(handle)
            return Directory(handle, self._check(_ask_final_path(handle), name))
        except BaseException:
            _close_handle(handle)
            raise

    def open(self, name: str) -> int:
        """A descriptor to read; see that it is a regular file before reading."""
        return self._open(name, os.O_RDONLY, 0)

    @contextmanager
    def scan(self) -> Iterator[Iterator[os.DirEntry[str]]]:
        with os.scandir(self._path) as entries:
            yield entries

    def is_writable(self, name: str) -> bool:
        return os.access(self._at(name), os.W_OK)

    def make(self, name: str) -> None:
        os.mkdir(self._at(name))  # noqa: PTH102

    def create(self, name: str, mode: int) -> int:
        """A new file to write, which must not exist yet."""
        return self._open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)

    def create_unnamed(self, mode: int) -> int | None:
        return None

    def name_unnamed(self, fd: int, name: str) -> None:
        raise os_error(errno.ENOSYS)

    def replace(self, source: str, name: str) -> None:
        os.replace(self._at(source), self._at(name))  # noqa: PTH105

    def claim(self, source: str, name: str) -> None:
        """Renames to a name that must not exist yet; on Windows a rename never replaces."""
        os.rename(self._at(source), self._at(name))  # noqa: PTH104

    def exchange(self, one: str, other: str) -> bool:
        return False

    def remove(self, name: str) -> None:
        os.unlink(self._at(name))  # noqa: PTH108

    def remove_directory(self, name: str) -> None:
        """Removes a directory that is empty; OSError otherwise."""
        os.rmdir(self._at(name))  # noqa: PTH106

    def sync(self) -> None:
        """Nothing to do: NTFS journals its names."""

    @staticmethod
    def set_permissions(fd: int, mode: int) -> None:
        """Nothing to do: a new file inherits the permissions of its directory."""

    @staticmethod
    def keep_attributes(fd: int, old: os.stat_result) -> None:
        """Nothing to do: a new file inherits the permissions of its directory."""

    def _at(self, name: str) -> str:
        return self._path if name == "." else f"{self._path}\\{name}"

    def _open(self, name: str, flags: int, mode: int) -> int:
        fd = os.open(self._at(name), flags | os.O_BINARY | os.O_NOINHERIT, mode)
        try:
            self._check(_ask_final_path(msvcrt.get_osfhandle(fd)), name)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _check(self, final: str, name: str) -> str:
        """The final path of something just opened here, which must be the path it was opened by."""
        if os.path.normcase(final) != os.path.normcase(self._at(name)):
            raise leads_outside(name)
        return final


def _open_directory(path: str, flags: int) -> int:
    handle: int | None = _create_file(
        path,
        _FILE_LIST_DIRECTORY | _FILE_READ_ATTRIBUTES,
        _SHARE_READ_WRITE,
        None,
        _OPEN_EXISTING,
        _BACKUP_SEMANTICS | flags,
        None,
    )
    if handle is None or handle == _INVALID_HANDLE:
        raise ctypes.WinError(ctypes.get_last_error())
    return handle


def _check_plain_directory(handle: int) -> None:
    """Raises OSError unless this is a directory that stands for no other."""
    tag = _AttributeTag()
    if not _file_information(handle, _FILE_ATTRIBUTE_TAG_INFO, ctypes.byref(tag), ctypes.sizeof(tag)):
        raise ctypes.WinError(ctypes.get_last_error())
    if tag.reparse_tag & _NAME_SURROGATE or not tag.attributes & stat.FILE_ATTRIBUTE_DIRECTORY:
        raise os_error(errno.ENOTDIR)


def _ask_final_path(handle: int) -> str:
    r"""Where the opened object really is, without the `\\?\` that Windows puts before it."""
    buffer = ctypes.create_unicode_buffer(_LONGEST_PATH)
    length = _final_path(handle, buffer, _LONGEST_PATH, 0)
    if not 0 < length < _LONGEST_PATH:
        raise ctypes.WinError(ctypes.get_last_error())
    path = buffer.value.removeprefix("\\\\?\\")
    return "\\\\" + path.removeprefix("UNC\\") if path.startswith("UNC\\") else path
