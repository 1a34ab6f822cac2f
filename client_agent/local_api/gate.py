"""Who may come in by the page's door. Decided on the head of each request, before anything else looks at it. Pure.

Everything that is not exactly what our own page sends is turned away: another Host (a name that was made to point
here), another Origin (another page), another method, another content type. Nothing is changed by a GET.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from client_agent.local_api.keys import same

MAX_BODY_BYTES = 1_000
_LENGTH_DIGITS = 4
_ONCE_ONLY = frozenset({"host", "origin", "cookie", "content-length", "content-type", "upgrade", "sec-fetch-site"})


class Head(msgspec.Struct, frozen=True):
    """The first line and the headers of a request; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]


class Entrance(StrEnum):
    FILE = "file"  # a file of the page, for whoever has the cookie
    THRESHOLD = "threshold"  # what a browser without it needs to exchange its ticket
    EXCHANGE = "exchange"
    LIVE = "live"  # the WebSocket


class Turned(Exception):
    """The request is turned away with this status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


def read_head(raw: bytes) -> Head:
    """Strictly: a request that two programs could read differently is read by neither. Raises Turned."""
    try:
        first, *lines = raw.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
        method, path, version = first.split(" ")
    except ValueError:
        raise Turned(400, "not a request") from None
    if (
        version != "HTTP/1.1"
        or not first.isascii()
        or any(ch in raw.replace(b"\r\n", b"") for ch in (b"\r", b"\n", b"\0"))
    ):
        raise Turned(400, "not a request")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or not name.isascii() or not name.strip() == name != "" or (key in _ONCE_ONLY and key in headers):
            raise Turned(400, "not a request")
        headers[key] = value.strip(" \t")
    return Head(method, path, headers)


def admit(head: Head, authority: str, cookie: str, open_paths: frozenset[str]) -> Entrance:
    """Where the request may go. `authority` is our own host and port. Raises Turned."""
    headers = head.headers
    origin = f"http://{authority}"
    if headers.get("host") != authority:
        raise Turned(403, "this is not the host you meant")
    if headers.get("origin", origin) != origin or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Turned(403, "another page has no business here")
    if "transfer-encoding" in headers:
        raise Turned(403, "not taken here")
    if head.method == "POST":
        return _admit_exchange(head)
    if head.method != "GET" or headers.get("content-length", "0") != "0":
        raise Turned(403, "not taken here")
    known = any(same(cookie, each) for each in _cookies_of(headers.get("cookie", ""), cookie_name(authority)))
    if "upgrade" in headers or head.path == "/live":
        if "origin" not in headers:
            raise Turned(403, "another program has no business here")
        if not known:
            raise Turned(401, "no ticket was exchanged")
        return Entrance.LIVE
    if known:
        return Entrance.FILE
    return Entrance.THRESHOLD if head.path in open_paths else _turn_away()


def _admit_exchange(head: Head) -> Entrance:
    headers = head.headers
    if head.path != "/session" or "origin" not in headers or headers.get("content-type") != "application/json":
        raise Turned(403, "not taken here")
    length = headers.get("content-length", "")
    if not length.isdecimal() or len(length) > _LENGTH_DIGITS or not 0 < int(length) <= MAX_BODY_BYTES:
        raise Turned(403, "not taken here")
    return Entrance.EXCHANGE


def _turn_away() -> Entrance:
    raise Turned(401, "no ticket was exchanged: `client-agent ui` opens the page")


def cookie_name(authority: str) -> str:
    """One for each port: browsers keep one set of cookies for all of them, and there may be two daemons."""
    return f"client_agent_{authority.rpartition(':')[2]}"


def _cookies_of(header: str, name: str) -> list[str]:
    """Every value under this name: what other programs of this machine put beside it must not shut us out."""
    pairs = (pair.strip(" ").partition("=") for pair in header.split(";"))
    return [value for key, _, value in pairs if key == name]
