"""Logging in and staying so: the device flow and renewals against the real server, and against bad ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from yarl import URL

from client_agent.config import Link
from client_agent.errors import LinkError
from client_agent.link.connection import ServerConnection
from client_agent.link.credentials import Credentials, Tokens
from client_agent.link.http import HttpPool
from client_agent.link.login import DeviceCode, TokenEndpoint, keep_fresh, log_in
from client_agent.link.status import LinkState
from client_agent.server.logins import Logins
from client_agent.server.runner import running
from client_agent.server.settings import ServerSettings
from tests.integration.link.conftest import NoKeyring

SECRET = "a-secret-for-tests-of-enough-bytes"


class Server:
    """The reference server, and whoever confirms codes at it."""

    def __init__(self, url: str, logins: Logins) -> None:
        self.url = url
        self.logins = logins


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    settings = ServerSettings(jwt_secret=SECRET, port=0, database_url=f"sqlite:///{tmp_path / 'server.db'}")
    apps = []

    def remember(app):
        apps.append(app)
        return app

    async with running(settings, remember) as url:
        yield Server(url, apps[0].state.services.logins)


@asynccontextmanager
async def endpoint(url: str) -> AsyncIterator[TokenEndpoint]:
    pool = HttpPool(Link(), URL(url))
    pool.open()
    try:
        yield TokenEndpoint(pool, URL(url))
    finally:
        await pool.close()


def kept(url: str, state: Path) -> Credentials:
    return Credentials(url, state, env={}, load_keyring=NoKeyring)


async def obtain(server: Server, *, approve: bool = True, waits: list[float] | None = None) -> Tokens:
    """Logs in; the user has an answer by the second time the device asks."""
    shown: list[DeviceCode] = []

    async def sleep(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)
        if waits is None or len(waits) == 2:
            await server.logins.decide(shown[0].user_code, "ann", approve=approve)

    async with endpoint(server.url) as asking:
        return await log_in(asking, shown.append, sleep=sleep)


async def test_a_login_by_code_waits_for_the_user(server: Server) -> None:
    waits: list[float] = []
    tokens = await obtain(server, waits=waits)
    assert waits == [5, 5]
    assert tokens.refresh_token
    assert 3500 < tokens.expires_at - time.time() <= 3600


async def test_a_login_that_is_turned_down_or_never_confirmed_says_so(server: Server) -> None:
    with pytest.raises(LinkError) as denied:
        await obtain(server, approve=False)
    assert denied.value.code == "login_denied"
    clock = iter(range(0, 10_000, 100))
    async with endpoint(server.url) as asking:
        with pytest.raises(LinkError) as late:
            await log_in(asking, lambda code: None, sleep=lambda seconds: asyncio.sleep(0), now=lambda: next(clock))
    assert late.value.code == "login_expired"


async def test_a_token_the_server_no_longer_takes_is_renewed_once_and_kept(server: Server, tmp_path: Path) -> None:
    tokens = await obtain(server)
    credentials = kept(server.url, tmp_path)
    await credentials.keep(msgspec.structs.replace(tokens, token="no.longer.good"))
    async with ServerConnection(Link(), server.url, "p", credentials) as connection:
        async with asyncio.timeout(20):
            listening = asyncio.create_task(anext(connection.events(), None))
            await connection.wait_until(lambda status: status.state is LinkState.CONNECTED)
        listening.cancel()
    again = kept(server.url, tmp_path)
    assert again.token() == credentials.known
    assert again.token() != "no.longer.good"
    assert again.tokens is not None
    assert again.tokens.refresh_token != tokens.refresh_token


async def test_a_token_that_a_login_brought_is_used_as_it_is(server: Server, tmp_path: Path) -> None:
    credentials = kept(server.url, tmp_path)
    async with ServerConnection(Link(), server.url, "p", credentials) as connection, asyncio.timeout(20):
        listening = asyncio.create_task(anext(connection.events(), None))
        await connection.wait_until(lambda status: status.state is LinkState.UNAUTHORIZED)
        tokens = await obtain(server)
        await credentials.keep(tokens)
        await connection.reload_credentials()
        await connection.wait_until(lambda status: status.state is LinkState.CONNECTED)
        listening.cancel()
    assert credentials.tokens is not None
    assert credentials.tokens.refresh_token == tokens.refresh_token


async def test_a_token_whose_end_is_near_is_renewed_before(server: Server, tmp_path: Path) -> None:
    tokens = await obtain(server)
    credentials = kept(server.url, tmp_path)
    await credentials.keep(tokens)
    await credentials.reload()
    async with endpoint(server.url) as asking:
        credentials.refresh = asking.refresh
        due_at = tokens.refresh_due_at
        assert due_at is not None
        assert tokens.expires_at - due_at == pytest.approx(720, abs=1)
        await credentials.refresh_when_due(due_at - 1)
        assert credentials.known == tokens.token
        await asyncio.sleep(1.1)  # a token says to the second when it was made
        await credentials.refresh_when_due(due_at)
        assert credentials.known not in (None, tokens.token)


async def test_many_who_renew_at_once_renew_once_and_all_have_a_good_token(server: Server, tmp_path: Path) -> None:
    tokens = await obtain(server)
    everybody = [kept(server.url, tmp_path) for _ in range(8)]
    await everybody[0].keep(msgspec.structs.replace(tokens, token="old"))
    renewals: list[str] = []
    async with endpoint(server.url) as asking:

        async def refresh(refresh_token: str) -> Tokens:
            renewals.append(refresh_token)
            return await asking.refresh(refresh_token)

        for each in everybody:
            await each.reload()
            each.refresh = refresh
        assert all(await asyncio.gather(*(each.renew("old") for each in everybody)))
        assert renewals == [tokens.refresh_token]
        assert len({each.known for each in everybody}) == 1
        assert await asking.check("p", everybody[0].token()) == 200


async def test_a_login_that_the_server_ended_is_not_asked_about_for_ever(server: Server, tmp_path: Path) -> None:
    tokens = await obtain(server)
    credentials = kept(server.url, tmp_path)
    await credentials.keep(msgspec.structs.replace(tokens, token="old"))
    await credentials.reload()
    asked: list[str] = []
    async with endpoint(server.url) as asking:
        await asking.revoke(tokens.refresh_token)

        async def refresh(refresh_token: str) -> Tokens:
            asked.append(refresh_token)
            return await asking.refresh(refresh_token)

        credentials.refresh = refresh
        for _ in range(3):
            assert not await credentials.renew("old")
    assert len(asked) == 1
    assert "client-agent login" in credentials.problem


async def test_what_is_no_login_server_is_said_so(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(replies.pop(0))
        await writer.drain()
        writer.close()

    def reply(status: str, body: str = "") -> bytes:
        return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()

    replies = [
        reply("404 Not Found"),
        reply("200 OK", "<html>"),
        reply("302 Found"),
        reply("200 OK", '{"device_code": 7}'),
    ]
    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    codes = []
    async with listening, endpoint(url) as asking:
        for _ in range(len(replies)):
            with pytest.raises(LinkError) as caught:
                await asking.begin()
            codes.append(caught.value.code)
    async with endpoint(url) as asking:
        with pytest.raises(LinkError) as away:
            await asking.begin()
    assert [*codes, away.value.code] == [
        "no_device_login",
        "login_failed",
        "login_failed",
        "login_failed",
        "link_failed",
    ]


@pytest.mark.parametrize("token", ["good\r\nX-Injected: yes", "two words", "", "ünicode", "x" * 20_000])
async def test_a_renewed_token_that_is_no_token_never_gets_into_a_header(tmp_path: Path, token: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = msgspec.json.encode({"access_token": token, "refresh_token": "next"})
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    credentials = kept(url, tmp_path)
    await credentials.keep(Tokens("old", "first"))
    await credentials.reload()
    async with listening, endpoint(url) as asking:
        credentials.refresh = asking.refresh
        assert not await credentials.renew("old")
    assert credentials.known == "old"
    assert "no token has" in credentials.problem


async def test_that_a_token_cannot_be_renewed_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("client_agent.link.login._LOOK_S", 0)
    told: list[str] = []
    tries = 0

    async def fail() -> None:
        nonlocal tries
        tries += 1
        raise LinkError("the server is away")

    task = asyncio.create_task(keep_fresh(fail, told.append))
    while tries < 5:
        await asyncio.sleep(0)
    task.cancel()
    assert told == ["the server is away"]


def test_secrets_are_in_no_words_about_them(tmp_path: Path) -> None:
    tokens = Tokens("the-token", "the-refresh-token", 1.0, 2.0)
    credentials = kept("http://127.0.0.1:9", tmp_path)
    credentials.store(tokens)
    credentials.read_again()
    words = f"{tokens!r} {credentials!r} {credentials.mask('the-token and the-refresh-token')}"
    assert "the-" not in words
