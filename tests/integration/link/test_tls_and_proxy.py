"""The way to the server: certificates and proxies."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from client_agent.config import Link
from client_agent.link.connection import ServerConnection
from client_agent.link.status import LinkState
from client_agent.link.verdicts import Outcome
from tests.integration.link.peer import PATIENCE_S, Peer, Request, read_request

Connect = Callable[..., AbstractAsyncContextManager[ServerConnection]]


def write_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1 that is its own authority: the file to trust, and the server's side."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test authority")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    ca_file, key_file = folder / "ca.pem", folder / "key.pem"
    ca_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca_file, key_file)
    return ca_file, context


@pytest.fixture
async def secure(tmp_path: Path) -> AsyncIterator[tuple[Peer, Path]]:
    ca_file, context = write_certificate(tmp_path)
    async with Peer(context) as peer:
        yield peer, ca_file


class Proxy:
    """A proxy of both kinds: it opens tunnels, and forwards requests that name the whole address."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._forward(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        self.requests.append(request)
        if request.method == "CONNECT":
            far_reader, far_writer = await asyncio.open_connection(*request.target.split(":"))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            address, path = request.target.removeprefix("http://").split("/", 1)
            far_reader, far_writer = await asyncio.open_connection(*address.split(":"))
            far_writer.write(f"{request.method} /{path} HTTP/1.1\r\n".encode())
            far_writer.writelines(name.encode() + b": " + value + b"\r\n" for name, value in request.headers.items())
            far_writer.write(b"\r\n" + request.body)
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            far_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def check_both_directions(peer: Peer, connection: ServerConnection) -> None:
    events = connection.events()
    waiting = asyncio.ensure_future(anext(events))
    exchange = await peer.next()
    await exchange.open_stream(b"id: 1\ndata: {}\n\n")
    async with asyncio.timeout(PATIENCE_S):
        assert (await waiting).event_id == "1"
    for send in (connection.post_result("t1", b"{}"), connection.approve("a1")):
        sending = asyncio.ensure_future(send)
        await (await peer.next()).answer(200)
        assert (await sending).outcome is Outcome.DELIVERED
    await events.aclose()


async def test_a_server_vouched_for_by_the_given_authority_is_trusted(
    secure: tuple[Peer, Path], connect: Connect, settings: Link
) -> None:
    peer, ca_file = secure
    async with connect(peer.url, msgspec.structs.replace(settings, ca_file=str(ca_file))) as connection:
        await check_both_directions(peer, connection)


@pytest.mark.parametrize("trust", ["system", "bundled"])
async def test_a_server_nobody_vouches_for_gets_no_request(
    secure: tuple[Peer, Path], connect: Connect, settings: Link, trust: str
) -> None:
    peer, _ = secure
    async with connect(peer.url, msgspec.structs.replace(settings, trust=trust)) as connection:
        events = connection.events()
        waiting = asyncio.ensure_future(anext(events))
        async with asyncio.timeout(PATIENCE_S):
            status = await connection.wait_until(lambda status: status.state is LinkState.RETRYING)
        assert "certificate" in status.detail.lower()
        assert (await connection.post_result("t1", b"{}")).outcome is Outcome.RETRY
        assert (await connection.approve("a1")).outcome is Outcome.RETRY
        waiting.cancel()
        await asyncio.wait([waiting])
    assert peer.requests == []


async def test_the_systems_store_is_asked(
    secure: tuple[Peer, Path], connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, ca_file = secure
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))  # where OpenSSL looks for the system's certificates
    async with connect(peer.url) as connection:
        await check_both_directions(peer, connection)


async def test_a_plain_server_is_reached_through_the_proxy(peer: Peer, connect: Connect, settings: Link) -> None:
    proxy = Proxy()
    async with proxy.running() as address:
        link = msgspec.structs.replace(settings, proxy=f"http://user:pass%40word@{address}")
        async with connect(peer.url, link) as connection:
            await check_both_directions(peer, connection)
    assert len(proxy.requests) >= 2
    for request in proxy.requests:
        assert request.target.startswith(peer.url + "/my/projects/p1/")
        assert request.headers["proxy-authorization"] == b"Basic dXNlcjpwYXNzQHdvcmQ="


async def test_an_encrypted_server_is_reached_through_a_tunnel_that_sees_no_token(
    secure: tuple[Peer, Path], connect: Connect, settings: Link
) -> None:
    peer, ca_file = secure
    proxy = Proxy()
    async with proxy.running() as address:
        link = msgspec.structs.replace(settings, proxy=f"http://user:pass%40word@{address}", ca_file=str(ca_file))
        async with connect(peer.url, link) as connection:
            await check_both_directions(peer, connection)
    assert proxy.requests
    for request in proxy.requests:
        assert (request.method, request.target) == ("CONNECT", f"127.0.0.1:{peer.port}")
        assert request.headers["proxy-authorization"] == b"Basic dXNlcjpwYXNzQHdvcmQ="
        assert "authorization" not in request.headers


async def test_the_environments_proxy_is_used_for_another_machine(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Peer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        async with connect("http://server.invalid") as connection:
            sending = asyncio.ensure_future(connection.post_result("t1", b"{}"))
            exchange = await proxy.next()
            assert exchange.request.target == "http://server.invalid/my/projects/p1/tools/t1/result"
            await exchange.answer(407)
            assert (await sending).outcome is Outcome.RETRY


async def test_the_environments_proxy_is_not_used_for_this_machine(
    peer: Peer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Peer() as proxy:
        for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
        async with connect(peer.url) as connection:
            await check_both_directions(peer, connection)
        assert proxy.connections == 0


async def test_a_proxys_password_is_in_no_message(connect: Connect, settings: Link) -> None:
    async with Peer() as proxy:
        link = msgspec.structs.replace(settings, proxy=f"http://user:hushhush@127.0.0.1:{proxy.port}")
        async with connect("https://server.invalid", link) as connection:
            sending = asyncio.ensure_future(connection.post_result("t1", b"{}"))
            await (await proxy.next()).answer(403)
            assert "hushhush" not in (await sending).detail
    async with connect("https://server.invalid", link) as connection:  # and now it is gone
        assert "hushhush" not in (await connection.post_result("t1", b"{}")).detail


async def test_who_could_not_be_reached_is_said_in_plain_words(connect: Connect, settings: Link) -> None:
    async with Peer() as gone:
        pass
    async with connect(gone.url) as connection:
        detail = (await connection.post_result("t1", b"{}")).detail
        assert detail == f"cannot connect to 127.0.0.1:{gone.port}: Connection refused"
    link = msgspec.structs.replace(settings, proxy=gone.url)
    async with connect("http://server.invalid", link) as connection:
        detail = (await connection.post_result("t1", b"{}")).detail
        assert detail == f"cannot connect to the proxy 127.0.0.1:{gone.port}: Connection refused"
