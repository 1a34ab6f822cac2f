"""The token for one server: where it comes from, how it is renewed, and that it goes nowhere else.

In this order: the environment variable CLIENT_AGENT_TOKEN, the system's keyring, a file in the state directory that
only its owner can read. No message, log line or `repr` made here holds it.
"""

from __future__ import annotations

import asyncio
import binascii
import logging
import os
import re
import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import msgspec
from yarl import URL

from client_agent.errors import LinkError
from client_agent.journal.lock import try_lock
from client_agent.link.origin import origin_of
from client_agent.link.vault import Keyring, TokenSource, Vault, load_keyring

TOKEN_VARIABLE = "CLIENT_AGENT_TOKEN"  # noqa: S105
# A token is renewed when a fifth of its life is left, and at the latest so long before its end.
REFRESH_SHARE, REFRESH_MIN_S = 0.2, 30.0
_log = logging.getLogger(__name__)
_PRINTABLE = re.compile(r"[\x21-\x7e]{1,16384}")
_LOCK_LOOK_S = 0.05


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a login gives. A token without `refresh_token` cannot be renewed here."""

    token: str
    refresh_token: str = ""
    obtained_at: float = 0.0
    expires_at: float = 0.0

    def __repr__(self) -> str:
        return "Tokens(…)"

    @property
    def refresh_due_at(self) -> float | None:
        """When it should be renewed; None where that is not known or not possible."""
        if not self.refresh_token or not self.expires_at:
            return None
        return self.expires_at - max((self.expires_at - self.obtained_at) * REFRESH_SHARE, REFRESH_MIN_S)


Refresh: TypeAlias = Callable[[str], Awaitable[Tokens]]


class _Claims(msgspec.Struct):
    sub: str | int | None = None
    exp: float | None = None


class Credentials:
    """The token for one server. Reading it may block (a locked keyring asks its owner); on the event loop, `renew`."""

    def __init__(
        self,
        server_url: str,
        state_dir: Path,
        *,
        env: Mapping[str, str] = os.environ,
        load_keyring: Callable[[], Keyring] = load_keyring,
    ) -> None:
        self.origin = origin_of(URL(server_url))
        self._vault = Vault(self.origin, state_dir, load_keyring)
        self._lock_file = state_dir / "tokens.lock"
        self._env = env
        self._kept: Tokens | None = None
        self._renewing = asyncio.Lock()
        self._ended: tuple[str, LinkError] | None = None  # a refresh token that the server will not take again
        self.refresh: Refresh | None = None  # how the server renews a token; set by whoever is connected to it
        self.source: TokenSource | None = None
        self.problem = ""  # why there is no token, as last found

    def __repr__(self) -> str:
        return f"Credentials({self.origin!r}, source={self.source})"

    @property
    def known(self) -> str | None:
        """The token as last read; never blocks."""
        return self._kept.token if self._kept is not None else None

    @property
    def tokens(self) -> Tokens | None:
        """The token as last read, with what it can be renewed by."""
        return self._kept

    @property
    def file(self) -> Path:
        """Where it is kept when there is no keyring."""
        return self._vault.file

    @property
    def subject(self) -> str | None:
        """Whom the token names (`sub`, not verified: that is the server's to do); None when it does not say."""
        subject = _read_claims(self._kept.token).sub if self._kept is not None else None
        return None if subject is None else str(subject)

    @property
    def expires_at(self) -> float | None:
        """When the token says that it ends."""
        return None if self._kept is None else self._kept.expires_at or _read_claims(self._kept.token).exp

    def token(self) -> str:
        """The token, read once. Raises LinkError when there is none, or one that cannot be used."""
        return self._kept.token if self._kept is not None else self.read_again()

    def read_again(self) -> str:
        """The token, from where it is kept. Raises LinkError, and then goes on with the one it knew."""
        text, source = self._env.get(TOKEN_VARIABLE), TokenSource.ENVIRONMENT
        if not text:
            text, source = self._vault.get() or ("", source)
        if not text:
            remedy = f"run `client-agent login`, or set {TOKEN_VARIABLE}"
            raise LinkError(f"no token for {self.origin}: {remedy}", code="token_missing")
        self._kept, self.source, self.problem = _parse(text, f"from the {source}"), source, ""
        return self._kept.token

    async def renew(self, refused: str | None) -> bool:
        """Whether there is another token than the refused one: read again, or else refreshed by the server.

        Once for all who ask together, here and in other processes.
        """
        async with self._renewing:
            if self.known == refused:
                try:
                    async with self._alone():
                        await asyncio.to_thread(self.read_again)
                        if self.known == refused:
                            await self._refresh()
                except LinkError as error:
                    self.problem = error.message
            return self.known not in (None, refused)

    async def refresh_when_due(self, now: float | None = None) -> None:
        """Renews a token whose end is near. Raises LinkError when the server does not."""
        async with self._renewing:
            if self._is_due(now):
                async with self._alone():
                    await asyncio.to_thread(self.read_again)
                    if self._is_due(now):
                        await self._refresh()

    async def reload(self) -> None:
        """Takes whatever is kept now, after a login or a logout."""
        async with self._renewing:
            try:
                await asyncio.to_thread(self.read_again)
            except LinkError as error:
                self._kept = self.source = None
                self.problem = error.message

    async def keep(self, tokens: Tokens) -> TokenSource:
        """Stores what a login gave, so that nobody else's refresh comes in between; says where."""
        async with self._alone():
            return await asyncio.to_thread(self.store, tokens)

    def store(self, tokens: Tokens) -> TokenSource:
        """Keeps them in the keyring, or where there is none in a file only its owner can read; says which."""
        checked = msgspec.structs.replace(tokens, token=check_token(tokens.token.strip(), "given"))
        text = msgspec.json.encode(checked).decode() if checked.refresh_token else checked.token
        return self._vault.put(text)

    def forget(self) -> None:
        """Removes the token from keyring and file."""
        self._vault.forget()
        self._kept = self.source = None

    def mask(self, text: str) -> str:
        """The text without the token."""
        for secret in (self._kept.token, self._kept.refresh_token) if self._kept is not None else ():
            text = text.replace(secret, "***") if secret else text
        return text

    def _is_due(self, now: float | None) -> bool:
        due_at = self._kept.refresh_due_at if self._kept is not None else None
        return due_at is not None and due_at <= (time.time() if now is None else now)

    async def _refresh(self) -> None:
        """Asks the server for new ones and keeps them. Raises LinkError."""
        old = self._kept
        if old is None or not old.refresh_token or self.refresh is None:
            return
        if self._ended is not None and self._ended[0] == old.refresh_token:
            raise self._ended[1]
        try:
            self._kept = await self.refresh(old.refresh_token)
        except LinkError as error:
            if error.code == "login_ended":
                self._ended = old.refresh_token, error
            raise
        before, self.source = self.source, await asyncio.to_thread(self.store, self._kept)
        if self.source is TokenSource.FILE and before is TokenSource.KEYRING:
            _log.warning("the keyring is gone: the token is kept unencrypted in %s", self.file)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """No other process renews or stores meanwhile: each refresh token is good for one renewal."""
        self._lock_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not try_lock(descriptor):  # noqa: ASYNC110 - another process tells us nothing
                await asyncio.sleep(_LOCK_LOOK_S)
            yield
        finally:
            os.close(descriptor)


def _parse(text: str, which: str) -> Tokens:
    """What is kept: a bare token, or one with what it is renewed by."""
    tokens = Tokens(text)
    if text.startswith("{"):
        try:
            tokens = msgspec.json.decode(text, type=Tokens)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            tokens = Tokens("")
    check_token(tokens.token, which)
    return tokens


def check_token(token: str, which: str) -> str:
    """The token, fit to be put into a header: a line break would begin a header of its own. Raises LinkError."""
    if not _PRINTABLE.fullmatch(token):
        raise LinkError(
            f"the token {which} holds blanks, line breaks or other characters that no token has",
            code="token_invalid",
        )
    return token


@lru_cache(maxsize=8)  # asked for every call
def _read_claims(token: str) -> _Claims:
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004
        return _Claims()
    try:
        return msgspec.json.decode(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Claims)
    except (binascii.Error, ValueError, RecursionError, msgspec.DecodeError):
        return _Claims()
