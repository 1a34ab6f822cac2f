"""Replacing a file in one step.

The new content is written beside the old and put on the disk before it takes the name, so that a crash at any moment
leaves all of the old or all of the new. On Linux the file being written has no name until then, and a process that is
killed leaves nothing behind; elsewhere it may leave a `.client-agent-….tmp`, which is safe to delete.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, StrEnum
from typing import Protocol, TypeAlias

import msgspec

from client_agent.errors import MissingFile, StaleContent, SystemRefused, TooLarge, WrongKind
from client_agent.policy.decision import Reason
from client_agent.workspace.directory import Directory
from client_agent.workspace.failures import show
from client_agent.workspace.reading import check_readable, read_file
from client_agent.workspace.walk import Spot

# Why this real path, relative to the root, may not be written; None when it may.
Judge: TypeAlias = Callable[[str], Reason | None]


class WriteMode(StrEnum):
    REPLACE = "write"
    APPEND = "append"


class Parents(Enum):
    REQUIRED = "required"
    CREATE = "create"


class Keeper(Protocol):
    """Keeps what is about to be replaced, so that it can be put back."""

    def keep(
        self, path: str, old: int | None, *, after: str | None, mode: int | None, made: tuple[str, ...]
    ) -> str | None:
        """Called before the file at this real path changes. `old` is open on what it holds; None: there is no file yet.

        The SHA-256 of what was kept, or None where it was not. Raises when the file must stay as it is.
        """
        ...

    def forget(self) -> None:
        """The file did not change after all."""
        ...


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become of a file. `permissions` are for one that is made anew."""

    data: bytes
    mode: WriteMode
    parents: Parents
    expected_hash: str | None
    max_bytes: int
    permissions: int | None = None

    @property
    def builds_on_old(self) -> bool:
        """Whether the outcome is right only for the content it was made from."""
        return self.mode is WriteMode.APPEND or self.expected_hash is not None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    relative: str
    size: int
    hash: str
    modified_ns: int
    created: bool


def check_size(size: int, max_bytes: int, path: str) -> None:
    if size > max_bytes:
        raise TooLarge(
            f"{show(path)} would have {size} bytes, the limit is {max_bytes}", path=path, size=size, limit=max_bytes
        )


def write(spot: Spot, change: Change, path: str, keeper: Keeper | None = None) -> Written:
    """Carries the change out at this spot. Raises OSError and CallErrors; then nothing has changed but new parents."""
    if spot.name is None or spot.wants_directory:
        raise WrongKind(f"{show(path)} names a directory", code="is_directory", path=path)
    made: tuple[str, ...] = ()
    if spot.missing:
        if change.parents is Parents.REQUIRED:
            where = show("/".join(spot.relative.split("/")[:-1]))
            raise MissingFile(f"there is no directory {where}; set create_dirs", code="parent_missing", path=path)
        made = _make_parents(spot)
    return _Writing(spot.directory, spot.name, change, path).carry_out(spot.relative, keeper, made)


def _make_parents(spot: Spot) -> tuple[str, ...]:
    """Makes the directories on the way; those that were not there, the outermost first."""
    made: list[str] = []
    walked = spot.relative.split("/")[: -len(spot.missing) - 1]
    for name in spot.missing:
        walked.append(name)
        with suppress(FileExistsError):
            spot.directory.make(name)
            made.append("/".join(walked))
        inner = spot.directory.enter(name)
        spot.directory.sync()
        spot.directory.close()
        spot.directory = inner
    spot.missing = []
    return tuple(made)


class _Writing:
    def __init__(self, directory: Directory, name: str, change: Change, path: str) -> None:
        self._directory = directory
        self._name = name
        self._change = change
        self._path = path
        self._status = self._look()
        # Whether only the content that was looked at may be replaced.
        self._exact = change.builds_on_old
        self._old_hash = ""

    def carry_out(self, relative: str, keeper: Keeper | None, made: tuple[str, ...]) -> Written:
        content = self._new_content()
        check_size(len(content), self._change.max_bytes, self._path)
        digest = hashlib.sha256(content).hexdigest()
        draft = _Draft(self._directory, self._status, self._change.permissions)
        try:
            modified_ns = draft.fill(content)
            if keeper is not None:
                self._keep(keeper, relative, digest, made)
            self._publish_or_forget(draft, keeper)
        finally:
            draft.discard()
        self._directory.sync()
        return Written(
            relative=relative, size=len(content), hash=digest, modified_ns=modified_ns, created=self._status is None
        )

    def _keep(self, keeper: Keeper, relative: str, after: str, made: tuple[str, ...]) -> None:
        """From here on only the content that was kept may be replaced."""
        if self._status is None:
            keeper.keep(relative, None, after=after, mode=None, made=made)
            self._exact = True
            return
        fd = self._open_old()
        try:
            status = os.fstat(fd)
            check_readable(status, status.st_size, self._path)
            kept = keeper.keep(relative, fd, after=after, mode=stat.S_IMODE(status.st_mode), made=made)
        finally:
            os.close(fd)
        if kept is None:  # too large: it is replaced all the same
            return
        if self._change.builds_on_old and kept != self._old_hash:
            keeper.forget()
            raise self._stale("changed while it was being written")
        self._old_hash = kept
        self._exact = True

    def _publish_or_forget(self, draft: _Draft, keeper: Keeper | None) -> None:
        try:
            self._publish(draft)
        except StaleContent:
            if keeper is not None:
                keeper.forget()
            raise

    def _open_old(self) -> int:
        try:
            return self._directory.open(self._name)
        except FileNotFoundError:
            raise self._stale("vanished while it was being written") from None

    def _look(self) -> os.stat_result | None:
        """What has the name now; raises unless it is a file that may be replaced, or nothing."""
        try:
            status = self._directory.status(self._name)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            raise self._stale("became a link while it was being written")
        check_readable(status, self._change.max_bytes if self._change.builds_on_old else status.st_size, self._path)
        # Renaming over a file needs no permission for it. Not even for root is a file without any write bit fair game.
        if not status.st_mode & 0o222 or not self._directory.is_writable(self._name):
            raise SystemRefused(f"{show(self._path)} is read-only", code="read_only", path=self._path)
        return status

    def _new_content(self) -> bytes:
        old = self._read_old()
        expected = self._change.expected_hash
        if expected == "" and old is not None:
            raise self._stale("exists already")
        if expected:
            if old is None:
                raise self._stale("no longer exists")
            if self._old_hash != expected.lower():
                raise self._stale("has changed since it was read")
        return old + self._change.data if old and self._change.mode is WriteMode.APPEND else self._change.data

    def _read_old(self) -> bytes | None:
        if self._status is None:
            return None
        if not self._change.builds_on_old:
            return b""
        fd = self._open_old()
        try:
            old, self._status = read_file(fd, self._change.max_bytes, self._path)
        finally:
            os.close(fd)
        self._old_hash = hashlib.sha256(old).hexdigest()
        return old

    def _publish(self, draft: _Draft) -> None:
        if not self._exact:
            draft.put_over(self._name)
        elif self._status is None:
            try:
                draft.put_new(self._name)
            except FileExistsError:
                raise self._stale("came into being meanwhile") from None
        elif not draft.put_over_content(self._name, self._old_hash):
            raise self._stale("changed while it was being written")

    def _stale(self, what: str) -> StaleContent:
        return StaleContent(f"{show(self._path)} {what}; nothing was written", path=self._path)


class _Draft:
    """The new content before it has the name it is meant for."""

    def __init__(self, directory: Directory, old: os.stat_result | None, permissions: int | None = None) -> None:
        self._directory = directory
        self._old = old
        self._permissions = permissions
        self._name = f".client-agent-{secrets.token_hex(8)}.tmp"
        mode = 0o666 if old is None else 0o600  # the system takes the umask off
        fd = directory.create_unnamed(mode)
        self._named = fd is None
        self._fd = directory.create(self._name, mode) if fd is None else fd

    def fill(self, content: bytes) -> int:
        """Puts the content on the disk; the time of the change in nanoseconds."""
        left = memoryview(content)
        while left:
            left = left[os.write(self._fd, left) :]
        if self._old is not None:
            self._directory.keep_attributes(self._fd, self._old)
        elif self._permissions is not None:
            self._directory.set_permissions(self._fd, self._permissions)
        os.fsync(self._fd)
        return os.fstat(self._fd).st_mtime_ns

    def put_new(self, name: str) -> None:
        """Takes a name that nothing has. Raises FileExistsError."""
        if self._named:
            self._close()
            self._directory.claim(self._name, name)
            self._named = False
        else:
            self._directory.name_unnamed(self._fd, name)

    def put_over(self, name: str) -> None:
        """Takes the name from whatever has it."""
        self._take_name()
        self._directory.replace(self._name, name)
        self._named = False

    def put_over_content(self, name: str, old_hash: str) -> bool:
        """Takes the name from a file of this content, and from no other: False then, and all is as before."""
        self._take_name()
        if not self._directory.exchange(self._name, name):
            if not holds(self._directory, name, old_hash):
                return False
            self.put_over(name)
            return True
        if holds(self._directory, self._name, old_hash):  # the very content replaced, now under the draft's name
            return True
        self._directory.exchange(self._name, name)
        return False

    def discard(self) -> None:
        """Leaves no trace but what was put in place."""
        self._close()
        if self._named:
            with suppress(FileNotFoundError):
                self._directory.remove(self._name)

    def _take_name(self) -> None:
        if not self._named:
            self._directory.name_unnamed(self._fd, self._name)
            self._named = True
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def holds(directory: Directory, name: str, expected_hash: str) -> bool:
    """Whether the file of this name, and nothing that became of it meanwhile, holds this content."""
    try:
        fd = directory.open(name)
    except OSError:
        return False
    with open(fd, "rb", buffering=0) as file:  # noqa: PTH123
        regular = stat.S_ISREG(os.fstat(fd).st_mode)
        return regular and hashlib.file_digest(file, "sha256").hexdigest() == expected_hash
