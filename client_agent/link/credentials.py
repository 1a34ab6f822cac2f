"""The token for one server: where it comes from, and that it goes nowhere else.

In this order: the environment variable CLIENT_AGENT_TOKEN, the system's keyring, a file in the state directory that
only its owner can read. No message, log line or `repr` made here holds it.
"""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import logging
import os
import re
import stat
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import msgspec
from yarl import URL

from client_agent.errors import LinkError
from client_agent.link.origin import origin_of

TOKEN_VARIABLE = "CLIENT_AGENT_TOKEN"  # noqa: S105
KEYRING_SERVICE = "client-agent"
_PRINTABLE = re.compile(r"[\x21-\x7e]{1,16384}")
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


class _Claims(msgspec.Struct):
    sub: str | int


def _load_keyring() -> Keyring:
    import keyring

    return keyring


class Credentials:
    """The token for one server. Reading it may block (a locked keyring asks its owner); on the event loop, `renew`."""

    def __init__(
        self,
        server_url: str,
        state_dir: Path,
        *,
        env: Mapping[str, str] = os.environ,
        load_keyring: Callable[[], Keyring] = _load_keyring,
    ) -> None:
        self._origin = origin_of(URL(server_url))
        self._file = state_dir / "tokens" / quote(self._origin, safe="")
        self._env = env
        self._load_keyring = load_keyring
        self._token: str | None = None
        self._renewing = asyncio.Lock()
        self.source: TokenSource | None = None
        self.problem = ""  # why there is no token, as last found

    def __repr__(self) -> str:
        return f"Credentials({self._origin!r}, source={self.source})"

    @property
    def known(self) -> str | None:
        """The token as last read; never blocks."""
        return self._token

    @property
    def subject(self) -> str | None:
        """Whom the token names (`sub`, not verified: that is the server's to do); None when it does not say."""
        return None if self._token is None else _read_subject(self._token)

    def token(self) -> str:
        """The token, read once. Raises LinkError when there is none, or one that cannot be used."""
        return self._token if self._token is not None else self.refresh()

    def refresh(self) -> str:
        """The token, read again from where it is kept. Raises LinkError."""
        for source, read in (
            (TokenSource.ENVIRONMENT, self._read_environment),
            (TokenSource.KEYRING, self._read_keyring),
            (TokenSource.FILE, self._read_file),
        ):
            if found := read():
                self.problem = ""
                self._token, self.source = _checked(found, f"from the {source}"), source
                return self._token
        raise LinkError(f"no token for {self._origin}: set {TOKEN_VARIABLE}, or store one", code="token_missing")

    async def renew(self, refused: str | None) -> bool:
        """Whether there is another token than the refused one; reads again, once for all who ask together."""
        async with self._renewing:
            if self._token == refused:
                try:
                    await asyncio.to_thread(self.refresh)
                except LinkError as error:
                    self.problem = error.message
            return self._token != refused

    def mask(self, text: str) -> str:
        """The text without the token."""
        return text.replace(self._token, "***") if self._token else text

    def store(self, token: str) -> TokenSource:
        """Keeps a token in the keyring, or where there is none in a file only its owner can read; says which."""
        checked = _checked(token.strip(), "given")
        try:
            self._load_keyring().set_password(KEYRING_SERVICE, self._origin, checked)
        except Exception as error:  # noqa: BLE001 - a keyring's backend raises what it likes
            _log.warning("no keyring (%s): the token is kept in %s", type(error).__name__, self._file)
            self._write_file(checked)
            return TokenSource.FILE
        self._file.unlink(missing_ok=True)
        return TokenSource.KEYRING

    def forget(self) -> None:
        """Removes the token from keyring and file."""
        with contextlib.suppress(Exception):
            self._load_keyring().delete_password(KEYRING_SERVICE, self._origin)
        self._file.unlink(missing_ok=True)
        self._token = self.source = None

    def _read_environment(self) -> str | None:
        return self._env.get(TOKEN_VARIABLE)

    def _read_keyring(self) -> str | None:
        try:
            return self._load_keyring().get_password(KEYRING_SERVICE, self._origin)
        except Exception as error:  # noqa: BLE001 - a keyring's backend raises what it likes
            _log.debug("no keyring: %s", type(error).__name__)
            return None

    def _read_file(self) -> str | None:
        try:
            descriptor = os.open(self._file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LinkError(f"{self._file} cannot be read: {error.strerror}", code="token_unreadable") from None
        with os.fdopen(descriptor, "rb") as file:
            self._check_private(os.fstat(file.fileno()))
            return file.read(65536).decode("utf-8", "replace").strip()

    def _check_private(self, info: os.stat_result) -> None:
        if os.name != "posix":  # elsewhere the profile directory's own access list keeps others out; not tried there
            return
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077:
            raise LinkError(
                f"{self._file} must be a file of your own that nobody else can read: store the token again",
                code="token_exposed",
            )

    def _write_file(self, token: str) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(token + "\n")
        draft.replace(self._file)


def _checked(token: str, which: str) -> str:
    """The token, fit to be put into a header. A line break would begin a header of its own."""
    if not _PRINTABLE.fullmatch(token):
        raise LinkError(
            f"the token {which} holds blanks, line breaks or other characters that no token has",
            code="token_invalid",
        )
    return token


def _read_subject(token: str) -> str | None:
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004
        return None
    try:
        claims = msgspec.json.decode(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Claims)
    except (binascii.Error, ValueError, RecursionError, msgspec.DecodeError):
        return None
    return str(claims.sub)
