"""The short way for results: straight onto a warm connection of aiohttp's pool.

A session prepares every request for whatever it might be: cookies, forms, compression, uploads, tracing. For a small
post that takes longer than everything else about it. Connecting, TLS and reading the answer are aiohttp's here too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from client_agent.link.answers import make_answer
from client_agent.link.verdicts import Answer

MAX_BYTES = 2_000_000  # what a connection may hold unsent: larger bodies are for the session, piece by piece
_ONE_WRITE_BYTES = 65_536


class Lane:
    """Posts to one server to which no proxy leads. Made inside the event loop."""

    def __init__(self, session: aiohttp.ClientSession, server: URL, timeout: aiohttp.ClientTimeout) -> None:
        assert session.connector is not None  # noqa: S101 - the session is open
        self._connector = session.connector
        self._timeout = timeout
        loop, kind = asyncio.get_running_loop(), aiohttp.ClientResponse
        # Says where to connect to; it is never sent itself.
        self._where = aiohttp.ClientRequest("POST", server.origin(), loop=loop, response_class=kind, session=session)
        self._fixed = _lines({"Host": server.host_port_subcomponent or "", **session.headers})

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[Answer, str]:
        """The answer, and where it redirects to. Raises TRANSPORT_ERRORS."""
        head = f"POST {path} HTTP/1.1\r\n{self._fixed}{_lines(headers)}Content-Length: {len(body)}\r\n\r\n"
        connection = await self._connector.connect(self._where, [], self._timeout)
        protocol, transport = connection.protocol, connection.transport
        assert protocol is not None and transport is not None  # noqa: S101, PT018 - it was connected this moment
        try:
            protocol.set_response_params(read_until_eof=True, auto_decompress=False)
            _write(transport, head.encode("ascii"), body)
            answer, location = await _read(protocol)
        except BaseException:
            connection.close()
            raise
        if transport.get_write_buffer_size():
            connection.close()
        else:
            connection.release()
        return answer, location


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def _write(transport: asyncio.Transport, head: bytes, body: bytes) -> None:
    """Not waited for: a server may answer, and hang up, before it has read everything."""
    if len(body) <= _ONE_WRITE_BYTES:
        transport.write(head + body)
    else:
        transport.write(head)
        transport.write(body)


async def _read(protocol: ResponseHandler) -> tuple[Answer, str]:
    while True:
        message, content = await protocol.read()
        if message.code >= 200:  # noqa: PLR2004 - not a mere word on the way
            answer = await make_answer(message.code, message.headers, content.iter_any())
            return answer, message.headers.get("location", "")
