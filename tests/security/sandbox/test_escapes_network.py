"""The network, and sockets as doors to processes outside."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

import pytest

from client_agent.sandbox import Access, Network
from tests.security.sandbox.place import Place


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def was_reached(server: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        server.accept()[0].close()
        return True
    return False


CONNECT = """
port = int(sys.argv[1])
attempt("tcp", lambda: socket.create_connection(("127.0.0.1", port), 2))
attempt("any", lambda: socket.create_connection(("192.0.2.1", 80), 2))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)))
attempt("raw", socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
attempt("packet", socket.socket, 17, socket.SOCK_RAW, 0)
attempt("vsock", socket.socket, 40, socket.SOCK_STREAM, 0)
attempt("netlink", socket.socket, 16, socket.SOCK_RAW, 12)
"""


@pytest.mark.parametrize("access", list(Access))
async def test_the_network_is_off(place: Place, listener: socket.socket, access: Access) -> None:
    await place.attempt(CONNECT, str(listener.getsockname()[1]), access=access)
    assert not was_reached(listener)


async def test_the_network_is_there_when_it_was_asked_for(place: Place, listener: socket.socket) -> None:
    code = 'socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5).close()'
    outcome = await place.python(code, str(listener.getsockname()[1]), network=Network.ON)
    assert outcome.exit_code == 0, outcome.stderr
    assert was_reached(listener)


async def test_programs_can_talk_to_themselves_without_network(place: Place) -> None:
    code = """
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).sendall(b"hello")
print(server.accept()[0].recv(9))
a, b = socket.socketpair(); a.send(b"pair"); print(b.recv(9))
"""
    assert (await place.python(code)).stdout == "b'hello'\nb'pair'\ntried\n"


async def test_no_kind_of_socket_pair_reaches_a_datagram_socket_outside(place: Place) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as outside:
        outside.bind(str(place.workspace / "door"))
        outside.setblocking(False)
        await place.attempt(
            """
def turn(kind): return socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b"x", "door")
for kind in socket.SocketKind: attempt(kind.name, turn, kind)
"""
        )
        with pytest.raises(BlockingIOError):
            outside.recv(9)


@pytest.mark.parametrize("network", list(Network))
async def test_unix_sockets_are_no_way_out(place: Place, network: Network) -> None:
    name = f"\0client-agent-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as by_path, socket.socket(socket.AF_UNIX) as abstract:
        by_path.bind(str(place.workspace / "door"))
        abstract.bind(name)
        for server in (by_path, abstract):
            server.listen()
            server.setblocking(False)
        await place.attempt(
            """
def connect(address): socket.socket(socket.AF_UNIX).connect(address)
def turn(address): socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", address)
def reconnect(address): socket.socketpair()[0].connect(address)
for kind, address in (("path", "door"), ("abstract", "\\0" + sys.argv[1])):
    attempt("connect " + kind, connect, address)
    attempt("datagram " + kind, turn, address)
    attempt("reconnect " + kind, reconnect, address)
attempt("bind", lambda: socket.socket(socket.AF_UNIX).bind("made"))
""",
            name[1:],
            network=network,
        )
        assert not was_reached(by_path)
        assert not was_reached(abstract)
