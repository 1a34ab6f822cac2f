"""The commands' side of the door. Plain sockets: a command has one connection and waits for what it asked."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from client_agent.errors import UserError
from client_agent.local_api.address import ADDRESS_FILE, Address, reachable_path

TIMEOUT_S = 30.0
ANSWER_S = 5.0  # for what a daemon has at hand: one that takes longer hangs


class NoDaemon(UserError):
    """Nobody answers at the door."""

    code = "no_daemon"


class Client:
    """A connection to the daemon of this state directory."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._file = connection.makefile("rb")
        self._requests = 0

    def close(self) -> None:
        self._file.close()
        self.connection.close()

    def request(self, op: str, **args: Any) -> Any:
        """The operation's result. Raises UserError with the daemon's own words."""
        self._requests += 1
        self.connection.sendall(msgspec.json.encode({"id": self._requests, "op": op, "args": args}) + b"\n")
        while True:
            message = self.receive()
            if message.get("id") == self._requests:
                break
        if "error" in message:
            raise UserError(message["error"]["message"], code=message["error"]["code"])
        return message["result"]

    def receive(self) -> dict[str, Any]:
        """The next message. Raises NoDaemon when the daemon is gone."""
        try:
            line = self._file.readline()
        except OSError as error:
            raise NoDaemon(f"the daemon does not answer: {error}") from None
        if not line:
            raise NoDaemon("the daemon has stopped")
        message: dict[str, Any] = msgspec.json.decode(line)
        return message


@contextmanager
def connecting(state_dir: Path, *, timeout_s: float | None = TIMEOUT_S) -> Iterator[Client]:
    """A connection. Raises NoDaemon."""
    try:
        address = msgspec.json.decode((state_dir / ADDRESS_FILE).read_bytes(), type=Address)
        connection = _connect(state_dir, address, timeout_s)
    except (OSError, msgspec.MsgspecError):
        raise NoDaemon("no daemon is running: start one with `client-agent start`") from None
    client = Client(connection)
    try:
        yield client
    finally:
        client.close()


def _connect(state_dir: Path, address: Address, timeout_s: float | None) -> socket.socket:
    if not address.socket:
        connection = socket.create_connection(("127.0.0.1", address.port), timeout_s)
        connection.sendall(address.token.encode() + b"\n")
        return connection
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        with reachable_path(state_dir / address.socket) as spelled:
            connection.connect(spelled)
    except BaseException:
        connection.close()
        raise
    return connection
