"""The page's door, from outside: who is let in, and how everybody else is turned away."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from client_agent.local_api import page, peers
from client_agent.local_api.client import NoDaemon, connecting
from client_agent.local_api.keys import prove
from tests.integration.daemon.conftest import World, world

__all__ = ["world"]


class Caller:
    """Speaks plain HTTP to the door."""

    def __init__(self, world: World) -> None:
        self.world = world
        with connecting(world.state) as daemon:
            url = urlsplit(daemon.request("page.open")["url"])
        self.authority, self.ticket = url.netloc, url.fragment
        self.origin = f"http://{self.authority}"
        self.cookie = self.key = ""

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(trust_env=False) as client:
            return await client.request(method, self.origin + path, content=body, headers=named)

    async def exchange(self) -> httpx.Response:
        body = f'{{"ticket": "{self.ticket}"}}'.encode()
        answer = await self.send("POST", "/session", body, Origin=self.origin, Content_Type="application/json")
        if answer.status_code == 200:
            self.cookie = answer.headers["set-cookie"].split(";")[0]
            self.key = answer.json()["key"]
        return answer


@pytest.fixture
async def caller(world: World) -> AsyncIterator[Caller]:
    async with world.running_daemon():
        yield await asyncio.to_thread(Caller, world)


async def test_without_a_ticket_there_is_only_the_threshold(caller: Caller) -> None:
    answer = await caller.send("GET", "/")
    assert answer.status_code == 401
    assert "Questions" not in answer.text
    for path in ("/app.js", "/index.html", "/../daemon.py", "/__init__.py"):
        assert (await caller.send("GET", path)).status_code == 401


async def test_a_ticket_is_exchanged_once_for_a_strict_cookie(caller: Caller) -> None:
    answer = await caller.exchange()
    assert answer.status_code == 200
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(answer.headers["set-cookie"].split("; "))
    assert (await caller.exchange()).status_code == 401
    assert (await caller.send("GET", "/", Cookie=caller.cookie)).status_code == 200
    assert (await caller.send("GET", "/__init__.py", Cookie=caller.cookie)).status_code == 404


async def test_every_answer_guards_the_page(caller: Caller) -> None:
    for answer in (await caller.send("GET", "/"), await caller.send("GET", "/none"), await caller.exchange()):
        policy = answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1", "127.0.0.1.evil.example:80", "0.0.0.0"])
async def test_another_name_for_this_address_is_turned_away(caller: Caller, host: str) -> None:
    await caller.exchange()
    assert (await caller.send("GET", "/", Host=host, Cookie=caller.cookie)).status_code == 403


async def test_another_origin_method_or_content_type_is_turned_away(caller: Caller) -> None:
    good = {"Origin": caller.origin, "Content_Type": "application/json"}
    body = f'{{"ticket": "{caller.ticket}"}}'.encode()
    form = {**good, "Content_Type": "application/x-www-form-urlencoded"}
    wrong = [
        await caller.send("POST", "/session", b"ticket=" + caller.ticket.encode(), **form),
        await caller.send("POST", "/session", body, **{**good, "Content_Type": "text/plain"}),
        await caller.send("POST", "/session", body, **{**good, "Origin": "http://evil.example"}),
        await caller.send("POST", "/session", body, **{**good, "Origin": "null"}),
        await caller.send("POST", "/session", body, Content_Type="application/json"),
        await caller.send("POST", "/session", body, **good, Sec_Fetch_Site="cross-site"),
        await caller.send("POST", "/live", body, **good),
        await caller.send("POST", "/session", b"x" * 100_000, **good),
        await caller.send("PUT", "/session", body, **good),
        await caller.send("DELETE", "/", Origin=caller.origin),
        await caller.send("OPTIONS", "/session", Origin="http://evil.example"),
        await caller.send("GET", "/", Origin="http://127.0.0.1:1"),
        await caller.send("GET", "/", Sec_Fetch_Site="same-site"),
    ]
    assert [answer.status_code for answer in wrong] == [403] * len(wrong)
    assert (await caller.exchange()).status_code == 200, "none of that used the ticket up"


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : {host}\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: {host}\nX: y\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: {host}\r\n\xff: y\r\n\r\n",
    ],
)
async def test_what_could_be_read_in_two_ways_is_not_read(caller: Caller, raw: bytes) -> None:
    host, port = caller.authority.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(raw.replace(b"{host}", caller.authority.encode()))
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_zeros_before_a_length_hide_no_large_body(caller: Caller) -> None:
    host, port = caller.authority.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /session HTTP/1.1\r\nHost: {caller.authority}\r\nOrigin: {caller.origin}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 00000000199999999\r\n\r\n".encode())
    writer.write_eof()
    assert (await reader.read()).startswith(b"HTTP/1.1 403 ")
    writer.close()


async def test_a_head_without_an_end_is_cut_off(caller: Caller) -> None:
    host, port = caller.authority.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000)
    assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
    writer.close()


async def test_it_listens_on_loopback_only(caller: Caller) -> None:
    port = int(caller.authority.split(":")[1])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    mine = [row[1] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"]
    assert mine == [f"0100007F:{port:04X}"]
    assert f":{port:04X}" not in Path("/proc/net/tcp6").read_text()


async def greet(connection: ClientConnection, key: str) -> None:
    """What the page does: both sides prove that they have the key, and it is not sent."""
    await connection.send('{"nonce": "0123456789abcdef"}')
    theirs = json.loads(await connection.recv())
    assert theirs["proof"] == prove(key, "daemon", "0123456789abcdef", theirs["nonce"])
    proof = prove(key, "page", "0123456789abcdef", theirs["nonce"])
    await connection.send(json.dumps({"proof": proof}))


async def live(caller: Caller, origin: str | None, cookie: str | None) -> None:
    headers = {"Cookie": cookie} if cookie else {}
    address = f"ws://{caller.authority}/live"
    async with connect(address, origin=origin, additional_headers=headers, proxy=None) as connection:  # type: ignore[arg-type]
        await greet(connection, caller.key)
        await connection.send('{"id": 1, "op": "status"}')
        assert '"result"' in str(await connection.recv())


async def test_the_socket_takes_our_origin_with_the_cookie_and_nothing_less(caller: Caller) -> None:
    await caller.exchange()
    await live(caller, caller.origin, caller.cookie)
    for origin, cookie, status in [
        (caller.origin, None, 401),
        (caller.origin, f"client_agent_{caller.authority.split(':')[1]}=guess", 401),
        (None, caller.cookie, 403),
        ("http://evil.example", caller.cookie, 403),
    ]:
        with pytest.raises(InvalidStatus) as refused:
            await live(caller, origin, cookie)
        assert refused.value.response.status_code == status


@pytest.mark.parametrize(
    "messages",
    [
        ['{"id": 1, "op": "status"}'],
        ['{"nonce": "short"}'],
        ['{"nonce": "0123456789abcdef"}', '{"id": 1, "op": "status"}'],
        ['{"nonce": "0123456789abcdef"}', '{"proof": "0123"}'],
        ['{"nonce": "0123456789abcdef"}', '{"nonce": "0123456789abcdef"}'],
        ["\ud800"],
    ],
)
async def test_the_cookie_without_the_key_opens_nothing(caller: Caller, messages: list[str]) -> None:
    await caller.exchange()
    headers = {"Cookie": caller.cookie}
    address = f"ws://{caller.authority}/live"
    async with connect(address, origin=caller.origin, additional_headers=headers, proxy=None) as connection:  # type: ignore[arg-type]
        for message in messages:
            await connection.send(message.encode("utf-8", "surrogatepass"), text=True)
        with pytest.raises(ConnectionClosed) as closed:
            await hear_no_result(connection)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code in (1007, 1008)


async def hear_no_result(connection: ClientConnection) -> None:
    while True:
        assert "result" not in str(await connection.recv())


async def test_a_proof_is_good_for_one_conversation_only(caller: Caller) -> None:
    await caller.exchange()
    headers = {"Cookie": caller.cookie}
    address = f"ws://{caller.authority}/live"
    for _ in range(2):
        async with connect(address, origin=caller.origin, additional_headers=headers, proxy=None) as connection:  # type: ignore[arg-type]
            await connection.send('{"nonce": "0123456789abcdef"}')
            theirs = json.loads(await connection.recv())
            seen = prove(caller.key, "daemon", "0123456789abcdef", theirs["nonce"])
            assert theirs["proof"] == seen
            await connection.send(json.dumps({"proof": seen}))  # what the daemon said is no proof of ours
            with pytest.raises(ConnectionClosed):
                await connection.recv()


async def test_other_cookies_of_this_machine_are_in_nobodys_way(caller: Caller) -> None:
    await caller.exchange()
    for beside in (
        'theme={"a":1,"b"}; ',
        "client_agent_1=x; ",
        "name=caf\xe9; ",
        f"{caller.cookie.split('=')[0]}=other; ",
    ):
        raw = f"GET / HTTP/1.1\r\nHost: {caller.authority}\r\nCookie: {beside}{caller.cookie}\r\n\r\n"
        assert (await send_raw(caller, raw.encode("latin-1"))).startswith(b"HTTP/1.1 200 "), beside


async def send_raw(caller: Caller, raw: bytes) -> bytes:
    host, port = caller.authority.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(raw)
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_program_of_another_user_is_not_listened_to(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """We are the other user here: the daemon is told that it is somebody else's."""
    monkeypatch.setattr(peers, "_ROOT", -1)
    monkeypatch.setattr(peers.os, "getuid", lambda: 4_000_000)
    answer = await caller.exchange()
    assert (answer.status_code, answer.text) == (401, "this page is another user's\n")
    monkeypatch.undo()
    assert (await caller.exchange()).status_code == 200, "the ticket was not used up"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_of_this_machine_gets_nothing_but_401(caller: Caller) -> None:
    code = (
        "import sys, http.client as h; c = h.HTTPConnection(sys.argv[1]); c.request('POST', '/session', sys.argv[2], "
    )
    code += "{'Origin': 'http://' + sys.argv[1], 'Content-Type': 'application/json'}); print(c.getresponse().status)"
    body = f'{{"ticket": "{caller.ticket}"}}'
    argv = ("/usr/bin/env", "-i", "python3", "-S", "-c", code, caller.authority, body)
    process = await asyncio.create_subprocess_exec(*argv, user=65534, group=65534, cwd="/", stdout=-1)
    out, _ = await process.communicate()
    assert out == b"401\n"
    assert (await caller.exchange()).status_code == 200


async def test_many_strangers_are_in_nobodys_way(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    host, port = caller.authority.split(":")
    answers = await asyncio.gather(*(caller.send("GET", "/") for _ in range(10)))
    assert {answer.status_code for answer in answers} == {401}
    monkeypatch.setattr(page, "MAX_CONNECTIONS", 3)
    held = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
    await asyncio.sleep(0.05)
    assert (await caller.send("GET", "/")).status_code == 503
    for _, writer in held:
        writer.close()
        await writer.wait_closed()
    async with asyncio.timeout(10):
        while (await caller.send("GET", "/")).status_code == 503:
            await asyncio.sleep(0.01)


async def test_the_page_cannot_make_tickets_or_stop_the_daemon(caller: Caller) -> None:
    await caller.exchange()
    address = f"ws://{caller.authority}/live"
    headers = {"Cookie": caller.cookie}
    async with connect(address, origin=caller.origin, additional_headers=headers, proxy=None) as connection:  # type: ignore[arg-type]
        await greet(connection, caller.key)
        for op in ("page.open", "stop", "nonsense"):
            await connection.send(f'{{"id": 1, "op": "{op}"}}')
            assert "unknown_operation" in str(await connection.recv())
        await connection.send("not json")
        assert "malformed" in str(await connection.recv())


async def test_the_socket_file_is_for_this_user_alone_and_goes_with_the_daemon(world: World) -> None:
    async with world.running_daemon():
        path = world.state / "door" / "socket"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_ISSOCK(path.stat().st_mode)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE((world.state / "door.json").stat().st_mode) == 0o600
    assert not path.exists()
    with pytest.raises(NoDaemon), connecting(world.state):
        pass


async def test_a_socket_left_by_a_daemon_that_died_is_in_nobodys_way(world: World) -> None:
    (world.state / "door").mkdir(parents=True)
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(world.state / "door" / "socket"))
    left.close()
    async with world.running_daemon():
        assert (await asyncio.to_thread(Caller, world)).ticket
