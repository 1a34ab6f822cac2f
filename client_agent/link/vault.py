"""Where the secrets for one server are kept: the system's keyring, or a file that only its owner can read."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from client_agent.errors import LinkError

KEYRING_SERVICE = "client-agent"
_MAX_BYTES = 65_536
_log = logging.getLogger(__name__)


class TokenSource(StrEnum):
    ENVIRONMENT = "environment"
    KEYRING = "keyring"
    FILE = "file"


class Keyring(Protocol):
    """The part of the keyring package that is used."""

    def get_password(self, service_name: str, username: str) -> str | None: ...
    def set_password(self, service_name: str, username: str, password: str) -> None: ...
    def delete_password(self, service_name: str, username: str) -> None: ...


def load_keyring() -> Keyring:
    import keyring

    return keyring


class Vault:
    """One secret text for one origin. Reading and writing may block: a locked keyring asks its owner."""

    def __init__(self, origin: str, state_dir: Path, load_keyring: Callable[[], Keyring]) -> None:
        self._origin = origin
        self.file = state_dir / "tokens" / quote(origin, safe="")
        self._load_keyring = load_keyring

    def get(self) -> tuple[str, TokenSource] | None:
        """The text and where it was. Raises LinkError for a file that others could read."""
        if found := self._read_keyring():
            return found, TokenSource.KEYRING
        if found := self._read_file():
            return found, TokenSource.FILE
        return None

    def put(self, text: str) -> TokenSource:
        """Keeps it in the keyring, or where there is none in the file; says which."""
        try:
            self._load_keyring().set_password(KEYRING_SERVICE, self._origin, text)
        except Exception as error:  # noqa: BLE001 - a keyring's backend raises what it likes
            _log.debug("no keyring: %s", type(error).__name__)  # whoever keeps a token says where it went
            self._write_file(text)
            return TokenSource.FILE
        self.file.unlink(missing_ok=True)
        return TokenSource.KEYRING

    def forget(self) -> None:
        """Removes it from keyring and file."""
        with contextlib.suppress(Exception):
            self._load_keyring().delete_password(KEYRING_SERVICE, self._origin)
        self.file.unlink(missing_ok=True)

    def _read_keyring(self) -> str | None:
        try:
            return self._load_keyring().get_password(KEYRING_SERVICE, self._origin)
        except Exception as error:  # noqa: BLE001 - a keyring's backend raises what it likes
            _log.debug("no keyring: %s", type(error).__name__)
            return None

    def _read_file(self) -> str | None:
        try:
            descriptor = os.open(self.file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LinkError(f"{self.file} cannot be read: {error.strerror}", code="token_unreadable") from None
        with os.fdopen(descriptor, "rb") as file:
            self._check_private(os.fstat(file.fileno()))
            return file.read(_MAX_BYTES).decode("utf-8", "replace").strip()

    def _check_private(self, info: os.stat_result) -> None:
        if os.name != "posix":  # elsewhere the profile directory's own access list keeps others out; not tried there
            return
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077:
            raise LinkError(
                f"{self.file} must be a file of your own that nobody else can read: `client-agent login` again",
                code="token_exposed",
            )

    def _write_file(self, text: str) -> None:
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
        draft.replace(self.file)
