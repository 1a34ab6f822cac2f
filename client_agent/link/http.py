"""One pool of warm connections to one server.

The event stream and everything ordinary go through httpx; the pool beneath is aiohttp's, several times as fast as
httpx's own. Results are posted on that pool directly (see `lane`), since they are what has to be fast.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import client_agent.link.lean  # noqa: F401  # isort: skip - before aiohttp

import aiohttp
import httpx
from aiohttp.http_exceptions import HttpProcessingError
from httpx_aiohttp import AiohttpTransport
from httpx_sse import aconnect_sse
from yarl import URL

from client_agent import __version__
from client_agent.config import Link
from client_agent.link.answers import describe_answer, make_answer, read_start
from client_agent.link.lane import MAX_BYTES as LANE_MAX_BYTES
from client_agent.link.lane import Lane
from client_agent.link.origin import MAX_REDIRECTS, RedirectRefused, follow, is_redirect
from client_agent.link.proxy import choose_proxy
from client_agent.link.trust import make_trust
from client_agent.link.verdicts import Answer

# What a peer, the network or TLS can do to us. httpx-aiohttp lets some of aiohttp's own errors through.
TRANSPORT_ERRORS = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.StreamError,
    aiohttp.ClientError,
    HttpProcessingError,
    OSError,
    UnicodeError,  # a host name that cannot be one
)

MAX_CONNECTIONS = 128
RESULTS_IN_FLIGHT = 64  # half of the connections: the stream and approvals never wait for results
POST_TIMEOUT_S = 30.0
POST_MIN_BYTES_PER_S = 50_000  # a large result on a slow line gets the time it needs
_KEEPALIVE_S = 30.0

_DISTRUST_HINT = (
    "A company's own authority belongs in `link.ca_file` or the system's store; "
    "a network that wants to be logged in to may also be in between"
)

Headers = dict[str, str]
_Send = Callable[[str, bytes, Headers], Coroutine[Any, Any, tuple[Answer, str]]]


class HttpPool:
    """Requests to one server, redirects within its origin followed. Must be opened and closed inside the event loop."""

    def __init__(self, settings: Link, server: URL) -> None:
        self._server = server
        self._connect_timeout_s = settings.connect_timeout_s
        self._proxy = choose_proxy(settings, server)
        # Loading certificates costs memory and time that a plain http server has no use for.
        self._trust = make_trust(settings) if server.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._result_slots = asyncio.Semaphore(RESULTS_IN_FLIGHT)
        self._session: aiohttp.ClientSession
        self._client: httpx.AsyncClient
        self._lane: Lane | None

    def open(self) -> None:
        """Makes the pool; connections are made as they are needed."""
        fixed = {"User-Agent": f"client-agent/{__version__}", "Accept-Encoding": "identity"}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._trust, limit=MAX_CONNECTIONS, keepalive_timeout=_KEEPALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=fixed,
            proxy=self._proxy,
            trust_env=False,  # the proxy was chosen above; and no .netrc
            auto_decompress=False,
        )
        self._client = httpx.AsyncClient(
            transport=AiohttpTransport(client=self._session, verify=self._trust),
            headers=fixed,
            trust_env=False,
            follow_redirects=False,
        )
        timeout = aiohttp.ClientTimeout(sock_connect=self._connect_timeout_s)
        self._lane = Lane(self._session, self._server, timeout) if self._proxy is None else None

    async def close(self) -> None:
        await self._client.aclose()

    async def renew(self) -> None:
        """Drops every connection and begins anew; requests on the way fail, and can be sent again."""
        client = self._client
        self.open()
        await client.aclose()

    @asynccontextmanager
    async def stream(self, url: URL, headers: dict[str, str | bytes]) -> AsyncIterator[httpx.Response]:
        """The response to the GET of an event stream, its body unread. Raises RedirectRefused, TRANSPORT_ERRORS."""
        timeout = httpx.Timeout(None, connect=self._connect_timeout_s, pool=self._connect_timeout_s)
        for _ in range(MAX_REDIRECTS + 1):
            async with aconnect_sse(self._client, "GET", str(url), headers=dict(headers), timeout=timeout) as source:
                response = source.response
                if not is_redirect("GET", response.status_code):
                    yield response
                    return
                url = follow(url, response.headers.get("location", ""))
        raise RedirectRefused(f"the server at {url.origin()} redirects in a circle")

    async def post_result(self, path: str, body: bytes, headers: Headers) -> Answer:
        """Posts on the fast path. Raises RedirectRefused, TRANSPORT_ERRORS."""
        async with self._result_slots, asyncio.timeout(POST_TIMEOUT_S + len(body) / POST_MIN_BYTES_PER_S):
            send = self._lane.post if self._lane and len(body) <= LANE_MAX_BYTES else self._send_large
            return await self._post(send, path, body, headers)

    async def post(self, path: str, body: bytes, headers: Headers) -> Answer:
        """Posts by httpx. Raises RedirectRefused, TRANSPORT_ERRORS."""
        return await self._post(self._send, path, body, headers)

    async def fetch(self, method: str, url: URL, body: bytes, headers: Headers) -> tuple[int, bytes]:
        """The status and the beginning of the body. A redirect is not followed. Raises TRANSPORT_ERRORS."""
        async with (
            asyncio.timeout(POST_TIMEOUT_S),
            self._client.stream(method, str(url), content=body, headers=headers, timeout=None) as response,
        ):
            return response.status_code, await read_start(response.aiter_bytes())

    async def _post(self, send: _Send, path: str, body: bytes, headers: Headers) -> Answer:
        for _ in range(MAX_REDIRECTS + 1):
            answer, location = await send(path, body, headers)
            if not is_redirect("POST", answer.status):
                return answer
            path = follow(self._url(path), location).raw_path_qs
        raise RedirectRefused(f"the server at {self._server.origin()} redirects in a circle")

    def _url(self, path: str) -> URL:
        return URL(f"{self._server.origin()}{path}", encoded=True)

    async def _send(self, path: str, body: bytes, headers: Headers) -> tuple[Answer, str]:
        url, timeout = str(self._url(path)), httpx.Timeout(None, connect=self._connect_timeout_s)
        async with (
            asyncio.timeout(POST_TIMEOUT_S),
            self._client.stream("POST", url, content=body, headers=headers, timeout=timeout) as response,
        ):
            return await read_answer(response), response.headers.get("location", "")

    async def _send_large(self, path: str, body: bytes, headers: Headers) -> tuple[Answer, str]:
        """As a file, so that sending it does not hold up the event loop."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout_s)
        async with self._session.post(
            self._url(path), data=io.BytesIO(body), headers=headers, allow_redirects=False, timeout=timeout
        ) as response:
            answer = await make_answer(response.status, response.headers, response.content.iter_any())
            return answer, response.headers.get("location", "")


async def read_answer(response: httpx.Response) -> Answer:
    """The answer with the beginning of its body."""
    return await make_answer(response.status_code, response.headers, response.aiter_bytes())


def headline(response: httpx.Response) -> Answer:
    """The answer as far as its headers say."""
    return describe_answer(response.status_code, response.headers, b"")


def describe(error: Exception) -> str:
    """What went wrong, in words; without what addresses may hold of user names and passwords."""
    cause = error.__cause__ if isinstance(error.__cause__, aiohttp.ClientConnectorError) else error
    told = _describe_connecting(cause) if isinstance(cause, aiohttp.ClientConnectorError) else str(error)
    text = re.sub(r"//[^/@\s]*@", "//", told) or type(error).__name__
    return f"{text}. {_DISTRUST_HINT}" if "CERTIFICATE_VERIFY_FAILED" in text else text


def _describe_connecting(error: aiohttp.ClientConnectorError) -> str:
    """Who could not be reached and why, in the system's words: aiohttp's are for programmers."""
    why = error.os_error
    # The numbers of TLS and of name servers are not the system's; and many addresses tried in vain have none.
    if why.errno and not isinstance(why, (ssl.SSLError, socket.gaierror)):
        reason = os.strerror(why.errno)
    else:
        reason = why.strerror or str(why)
    proxy = "the proxy " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
    return f"cannot connect to {proxy}{error.host}:{error.port}: {reason}"
