"""Contents of files, each under its SHA-256, in a directory that only this user can read."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from client_agent.journal.database import sync_directory

_CHUNK_BYTES = 1_000_000
_DRAFT = ".draft-"
# A draft that is older than this belongs to a process that died.
_ABANDONED_S = 3600.0


class Contents:
    """The directory. Methods raise OSError."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, source: int) -> tuple[str, int]:
        """Copies what this open file holds; its hash and size. It would survive a loss of power when this returns."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        draft = self._directory / f"{_DRAFT}{secrets.token_hex(8)}"
        try:
            digest, size = _copy(source, draft)
            target = self._directory / digest
            if not target.exists():
                draft.rename(target)
                sync_directory(self._directory)
        finally:
            draft.unlink(missing_ok=True)
        return digest, size

    def has(self, digest: str) -> bool:
        return (self._directory / digest).is_file()

    def read(self, digest: str) -> bytes | None:
        """The content; None when it is not here, or no longer what it was."""
        try:
            content = (self._directory / digest).read_bytes()
        except FileNotFoundError:
            return None
        return content if hashlib.sha256(content).hexdigest() == digest else None

    def remove(self, digest: str) -> None:
        (self._directory / digest).unlink(missing_ok=True)

    def stored(self) -> Iterator[str]:
        """The hashes of all that is here. Drafts that nobody finished are removed on the way."""
        if not self._directory.is_dir():
            return
        for path in self._directory.iterdir():
            if not path.name.startswith(_DRAFT):
                yield path.name
            elif path.stat().st_mtime < time.time() - _ABANDONED_S:
                path.unlink(missing_ok=True)


def _copy(source: int, draft: Path) -> tuple[str, int]:
    """The content up to the length it has now, onto the disk."""
    digest = hashlib.sha256()
    size = 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with (
        open(source, "rb", buffering=0, closefd=False) as reading,
        open(os.open(draft, flags, 0o600), "wb", buffering=0) as writing,  # noqa: PTH123
    ):
        reading.seek(0)
        left = os.fstat(source).st_size
        while left and (piece := reading.read(min(left, _CHUNK_BYTES))):
            digest.update(piece)
            _write_all(writing.fileno(), piece)
            size += len(piece)
            left -= len(piece)
        os.fsync(writing.fileno())
    return digest.hexdigest(), size


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
