"""Logins without a browser on the client: device codes (RFC 8628), and refresh tokens that change with every use.

A device code and a refresh token are kept as hashes only. A refresh token is good until its successor was used, so that
an answer lost on the way costs nobody their login; an older one was copied, and ends the login it belongs to.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from client_agent.server.auth import issue_token
from client_agent.server.database import Database
from client_agent.server.models import DeviceLogin, Login
from client_agent.server.problems import Conflict, NotFound
from client_agent.server.settings import ServerSettings

CODE_LIFETIME_S = 600
POLL_INTERVAL_S = 5
SLOWER_BY_S = 5
LOGIN_LIFETIME_S = 30 * 86_400
_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels: no words
_CODE_LENGTH = 8


class LoginState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"


class NotYet(Exception):
    """No token, with the error code that OAuth has for it."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


class DeviceCode(msgspec.Struct, frozen=True, kw_only=True):
    device_code: str
    user_code: str
    expires_in: int
    interval: int


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    access_token: str
    refresh_token: str
    expires_in: int
    token_type: str = "Bearer"  # noqa: S105


class Logins:
    """All logins of one server."""

    def __init__(self, settings: ServerSettings, database: Database) -> None:
        self._settings = settings
        self._database = database

    async def begin(self) -> DeviceCode:
        """A new pair of codes: one for the device, one for the user to confirm."""
        device_code = secrets.token_urlsafe(32)
        letters = "".join(secrets.choice(_CODE_LETTERS) for _ in range(_CODE_LENGTH))
        user_code = f"{letters[:4]}-{letters[4:]}"
        now = datetime.now(UTC)
        async with self._database.write() as connection:
            await connection.execute(delete(DeviceLogin).where(DeviceLogin.expires_at < now - timedelta(days=1)))
            await connection.execute(
                insert(DeviceLogin).values(
                    device_hash=_hash(device_code),
                    user_code=user_code,
                    status=LoginState.PENDING,
                    interval_s=POLL_INTERVAL_S,
                    expires_at=now + timedelta(seconds=CODE_LIFETIME_S),
                )
            )
        return DeviceCode(
            device_code=device_code, user_code=user_code, expires_in=CODE_LIFETIME_S, interval=POLL_INTERVAL_S
        )

    async def decide(self, user_code: str, user_id: str, *, approve: bool) -> None:
        """The user's word on a code. Raises NotFound, and Conflict when it was decided before."""
        wanted = normalise(user_code)
        async with self._database.write() as connection:
            row = await _find(connection, DeviceLogin.user_code == wanted)
            if row is None or row.expires_at <= datetime.now(UTC):
                raise NotFound(f"there is no code {wanted!r}, or its time is over")
            if row.status != LoginState.PENDING:
                raise Conflict(f"the code {wanted!r} was {row.status} before")
            status = LoginState.APPROVED if approve else LoginState.DENIED
            changed = update(DeviceLogin).where(DeviceLogin.user_code == wanted)
            await connection.execute(changed.values(status=status, user_id=user_id))

    async def collect(self, device_code: str) -> Tokens:
        """The device asks whether it may; the first time after a yes it gets tokens. Raises NotYet."""
        now, which = datetime.now(UTC), DeviceLogin.device_hash == _hash(device_code)
        async with self._database.write() as connection:
            row = await _find(connection, which)
            if row is None:
                raise NotYet("invalid_grant")
            if row.expires_at <= now:
                raise NotYet("expired_token")
            if row.status == LoginState.APPROVED:
                await connection.execute(delete(DeviceLogin).where(which))
                return await self._open(connection, row.user_id)
            early = row.polled_at is not None and now < row.polled_at + timedelta(seconds=row.interval_s)
            slower = row.interval_s + SLOWER_BY_S if early else row.interval_s
            await connection.execute(update(DeviceLogin).where(which).values(polled_at=now, interval_s=slower))
        if row.status == LoginState.DENIED:
            raise NotYet("access_denied")
        raise NotYet("slow_down" if early else "authorization_pending")

    async def refresh(self, refresh_token: str) -> Tokens:
        """New tokens for a login that still stands. Raises NotYet."""
        login_id, _, _ = refresh_token.partition(".")
        now, given = datetime.now(UTC), _hash(refresh_token)
        async with self._database.write() as connection:
            row = (await connection.execute(select(Login).where(Login.id == login_id))).one_or_none()
            if row is None or row.expires_at <= now:
                raise NotYet("invalid_grant")
            if any(hmac.compare_digest(given, known) for known in (row.current_hash, row.previous_hash)):
                successor = _new_refresh_token(login_id)
                values = {"current_hash": _hash(successor), "previous_hash": given, "expires_at": _login_end(now)}
                await connection.execute(update(Login).where(Login.id == login_id).values(**values))
                return self._tokens(row.user_id, successor)
            await connection.execute(delete(Login).where(Login.id == login_id))
        raise NotYet("invalid_grant")

    async def revoke(self, refresh_token: str) -> None:
        """Ends the login of a token that is one of its two; anything else is nothing to us."""
        login_id, _, _ = refresh_token.partition(".")
        given = _hash(refresh_token)
        mine = (Login.current_hash == given) | (Login.previous_hash == given)
        async with self._database.write() as connection:
            await connection.execute(delete(Login).where((Login.id == login_id) & mine))

    async def _open(self, connection: AsyncConnection, user_id: str) -> Tokens:
        now = datetime.now(UTC)
        login_id = secrets.token_hex(8)
        refresh_token = _new_refresh_token(login_id)
        known = _hash(refresh_token)
        await connection.execute(delete(Login).where(Login.expires_at < now))
        await connection.execute(
            insert(Login).values(
                id=login_id, user_id=user_id, current_hash=known, previous_hash=known, expires_at=_login_end(now)
            )
        )
        return self._tokens(user_id, refresh_token)

    def _tokens(self, user_id: str, refresh_token: str) -> Tokens:
        lifetime_s = self._settings.access_token_s
        access_token = issue_token(self._settings.jwt_secret, user_id, lifetime_s)
        return Tokens(access_token=access_token, refresh_token=refresh_token, expires_in=int(lifetime_s))


def normalise(user_code: str) -> str:
    """The code as it is kept, however it was typed."""
    letters = "".join(letter for letter in user_code.upper() if letter in _CODE_LETTERS)
    return f"{letters[:4]}-{letters[4:]}"


async def _find(connection: AsyncConnection, which: Any) -> Any:
    return (await connection.execute(select(DeviceLogin).where(which))).one_or_none()


def _new_refresh_token(login_id: str) -> str:
    return f"{login_id}.{secrets.token_urlsafe(32)}"


def _login_end(now: datetime) -> datetime:
    return now + timedelta(seconds=LOGIN_LIFETIME_S)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
