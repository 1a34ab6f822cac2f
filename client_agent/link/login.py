"""Logging in: OAuth's device flow (RFC 8628), refresh and revocation, against a server that is not trusted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
from yarl import URL

from client_agent.errors import LinkError
from client_agent.link.credentials import Tokens, check_token
from client_agent.link.http import TRANSPORT_ERRORS, HttpPool, describe
from client_agent.protocol import routes

CLIENT_ID = "client-agent"
_OK, _BAD_REQUEST = 200, 400
_NOT_OFFERED = (404, 405, 501)
_MAX_LIFETIME_S, _MIN_POLL_S, _MAX_POLL_S = 1800.0, 1.0, 60.0
_SLOWER_BY_S = 5.0
_LOOK_S = 20.0
_HEADERS = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}

M = TypeVar("M", bound=msgspec.Struct)


class DeviceCode(msgspec.Struct, frozen=True):
    """What the user is shown, and what we ask with."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float = 600
    interval: float = 5


class _TokenReply(msgspec.Struct):
    access_token: str
    refresh_token: str = ""
    expires_in: float = 0


class _ErrorReply(msgspec.Struct):
    error: str


class TokenEndpoint:
    """The part of a server that gives tokens. Everything raises LinkError, whose words hold no secret."""

    def __init__(self, pool: HttpPool, server: URL) -> None:
        self._pool = pool
        self._base = str(server).rstrip("/")

    async def begin(self) -> DeviceCode:
        """A new code; LinkError `no_device_login` where the server has no such thing."""
        status, body = await self._post(routes.DEVICE_AUTHORIZATION, client_id=CLIENT_ID)
        if status in _NOT_OFFERED:
            raise LinkError("this server offers no login by code", code="no_device_login")
        return _read(status, body, DeviceCode)

    async def collect(self, device_code: str) -> Tokens | str:
        """The tokens, or OAuth's word for why there are none yet."""
        status, body = await self._post(
            routes.TOKEN, grant_type=routes.DEVICE_GRANT, device_code=device_code, client_id=CLIENT_ID
        )
        return _read_error(body) if status == _BAD_REQUEST else _read_tokens(status, body)

    async def refresh(self, refresh_token: str) -> Tokens:
        """New tokens; LinkError `login_ended` when the server will never give any for this one again."""
        status, body = await self._post(
            routes.TOKEN, grant_type="refresh_token", refresh_token=refresh_token, client_id=CLIENT_ID
        )
        if status == _BAD_REQUEST and _read_error(body) == "invalid_grant":
            raise LinkError("the server has ended this login: run `client-agent login`", code="login_ended")
        tokens = _read_tokens(status, body)
        return tokens if tokens.refresh_token else msgspec.structs.replace(tokens, refresh_token=refresh_token)

    async def revoke(self, refresh_token: str) -> None:
        """Ends the login on the server as well."""
        await self._post(routes.REVOKE, token=refresh_token, client_id=CLIENT_ID)

    async def check(self, project_id: str, token: str) -> int:
        """The status with which the server answers this token for this project."""
        path = routes.fill(routes.TOOLS_AVAILABLE, project_id=project_id)
        status, _ = await self._send("GET", path, b"", {"Authorization": f"Bearer {token}"})
        return status

    async def _post(self, path: str, **fields: str) -> tuple[int, bytes]:
        return await self._send("POST", path, urlencode(fields).encode(), _HEADERS)

    async def _send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        try:
            return await self._pool.fetch(method, URL(self._base + path, encoded=True), body, headers)
        except TRANSPORT_ERRORS as error:
            raise LinkError(f"{self._base} does not answer: {describe(error)}") from None


async def log_in(
    endpoint: TokenEndpoint,
    show: Callable[[DeviceCode], None],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Tokens:
    """Shows the user a code and waits for their word. Raises LinkError: denied, too late, or what went wrong."""
    code = await endpoint.begin()
    show(code)
    wait_s = min(max(code.interval, _MIN_POLL_S), _MAX_POLL_S)
    until = now() + min(code.expires_in, _MAX_LIFETIME_S)
    while now() < until:
        await sleep(wait_s)
        try:
            found = await endpoint.collect(code.device_code)
        except LinkError as error:
            if error.code != LinkError.code:
                raise
            found = "slow_down"  # not reached: as RFC 8628 has it, ask less often
        match found:
            case Tokens():
                return found
            case "authorization_pending":
                continue
            case "slow_down":
                wait_s = min(wait_s + _SLOWER_BY_S, _MAX_POLL_S)
            case "access_denied":
                raise LinkError("the login was turned down", code="login_denied")
            case _:
                break
    raise LinkError("nobody confirmed the code in time: run `client-agent login` again", code="login_expired")


async def keep_fresh(refresh_when_due: Callable[[], Awaitable[None]], tell: Callable[[str], None]) -> None:
    """Renews the token before its end, for ever. Looks often: the clock goes on while the machine sleeps."""
    told = ""
    while True:
        try:
            await refresh_when_due()
            told = ""
        except LinkError as error:
            if error.message != told:
                told = error.message
                tell(error.message)
        await asyncio.sleep(_LOOK_S)


def _read_tokens(status: int, body: bytes) -> Tokens:
    reply = _read(status, body, _TokenReply)
    now = time.time()
    expires_at = now + reply.expires_in if reply.expires_in > 0 else 0.0
    token = check_token(reply.access_token, "that the server gave")
    return Tokens(token, reply.refresh_token, obtained_at=now, expires_at=expires_at)


def _read_error(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_ErrorReply).error
    except (msgspec.DecodeError, RecursionError):
        return ""


def _read(status: int, body: bytes, model: type[M]) -> M:
    if status != _OK:
        raise LinkError(f"the server answers a login with status {status}", code="login_failed")
    try:
        return msgspec.json.decode(body, type=model)
    except (msgspec.DecodeError, RecursionError):
        raise LinkError("the server answers a login with something else than tokens", code="login_failed") from None
