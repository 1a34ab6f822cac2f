"""One pool of warm connections to one server.

The event stream and everything ordinary go through httpx; the pool beneath is aiohttp's, several times as fast as
httpx's own. Results are posted on that pool directly: through httpx, 50 in flight reach less than half its throughput.
"""

from __future__ import annotations

import asyncio
import io
import re
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import httpx
from aiohttp.http_exceptions import HttpProcessingError
from httpx_aiohttp import AiohttpTransport
from httpx_sse import aconnect_sse
from yarl import URL

from client_agent import __version__
from client_agent.config import Link
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
MAX_BODY_BYTES = 65_536  # of an answer; the rest is not read
EXCERPT_CHARS = 200
POST_TIMEOUT_S = 30.0
POST_MIN_BYTES_PER_S = 50_000  # a large result on a slow line gets the time it needs
_KEEPALIVE_S = 30.0
_COPY_FREE_BYTES = 1_000_000  # beyond this aiohttp wants a file, so that sending it does not hold up the event loop

Headers = dict[str, str]
_Send = Callable[[URL, bytes, Headers], Coroutine[Any, Any, tuple[Answer, str]]]


class HttpPool:
    """Requests to one server, redirects within its origin followed. Must be opened and closed inside the event loop."""

    def __init__(self, settings: Link, server: URL) -> None:
        self._connect_timeout_s = settings.connect_timeout_s
        self._proxy = choose_proxy(settings, server)
        # Loading certificates costs memory and time that a plain http server has no use for.
        self._trust = make_trust(settings) if server.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._result_slots = asyncio.Semaphore(RESULTS_IN_FLIGHT)
        self._session: aiohttp.ClientSession
        self._client: httpx.AsyncClient

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

    async def post_result(self, url: URL, body: bytes, headers: Headers) -> Answer:
        """Posts on the fast path. Raises RedirectRefused, TRANSPORT_ERRORS."""
        async with self._result_slots:
            return await _post(self._send_fast, url, body, headers)

    async def post(self, url: URL, body: bytes, headers: Headers) -> Answer:
        """Posts by httpx. Raises RedirectRefused, TRANSPORT_ERRORS."""
        return await _post(self._send, url, body, headers)

    async def _send(self, url: URL, body: bytes, headers: Headers) -> tuple[Answer, str]:
        timeout = httpx.Timeout(None, connect=self._connect_timeout_s)
        async with (
            asyncio.timeout(POST_TIMEOUT_S),
            self._client.stream("POST", str(url), content=body, headers=headers, timeout=timeout) as response,
        ):
            return await read_answer(response), response.headers.get("location", "")

    async def _send_fast(self, url: URL, body: bytes, headers: Headers) -> tuple[Answer, str]:
        data = body if len(body) <= _COPY_FREE_BYTES else io.BytesIO(body)
        timeout = aiohttp.ClientTimeout(
            total=POST_TIMEOUT_S + len(body) / POST_MIN_BYTES_PER_S, sock_connect=self._connect_timeout_s
        )
        async with self._session.post(
            url, data=data, headers=headers, allow_redirects=False, timeout=timeout
        ) as response:
            start = await _read_start(response.content.iter_any())
            return _make_answer(response.status, response.headers, start), response.headers.get("location", "")


async def _post(send: _Send, url: URL, body: bytes, headers: Headers) -> Answer:
    for _ in range(MAX_REDIRECTS + 1):
        answer, location = await send(url, body, headers)
        if not is_redirect("POST", answer.status):
            return answer
        url = follow(url, location)
    raise RedirectRefused(f"the server at {url.origin()} redirects in a circle")


async def read_answer(response: httpx.Response) -> Answer:
    """The answer with the beginning of its body."""
    return _make_answer(response.status_code, response.headers, await _read_start(response.aiter_bytes()))


def headline(response: httpx.Response) -> Answer:
    """The answer as far as its headers say."""
    return _make_answer(response.status_code, response.headers, b"")


def _make_answer(status: int, headers: Mapping[str, str], start: bytes) -> Answer:
    text = start.decode("utf-8", "replace")[: 4 * EXCERPT_CHARS]
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return Answer(
        status=status,
        content_type=headers.get("content-type", ""),
        retry_after=headers.get("retry-after", ""),
        excerpt=shown[:EXCERPT_CHARS],
    )


async def _read_start(chunks: AsyncIterator[bytes]) -> bytes:
    """The body, as far as the limit. What is left unread costs the connection, not the memory."""
    start = bytearray()
    async for chunk in chunks:
        start += chunk
        if len(start) >= MAX_BODY_BYTES:
            break
    return bytes(start[:MAX_BODY_BYTES])


def describe(error: Exception) -> str:
    """What went wrong, in words; without what addresses may hold of user names and passwords."""
    return re.sub(r"//[^/@\s]*@", "//", str(error)) or type(error).__name__
