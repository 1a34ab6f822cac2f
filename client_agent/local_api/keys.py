"""The secrets of one start of the daemon: tickets for the page, and what a ticket is exchanged for.

A ticket travels in the fragment of the page's address, which no browser sends anywhere, works once, and not for long.
It is exchanged for two things, and the page needs both: a cookie, and a key that the page keeps for itself. The cookie
alone would not do: browsers send it to every port of 127.0.0.1, and so to programs that are not ours. The key is never
sent again: page and daemon prove to each other that they have it, so that a program that took the port of a daemon that
is gone learns nothing, and is not taken for it.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from typing import Annotated

import msgspec

TICKET_LIFETIME_S = 60.0
MAX_TICKETS = 16


class Keys:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._tickets: dict[str, float] = {}
        self.cookie = secrets.token_urlsafe(32)
        self.page_key = secrets.token_urlsafe(32)

    def issue_ticket(self) -> str:
        """A new one; the oldest is forgotten when there are many."""
        while len(self._tickets) >= MAX_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = self._now() + TICKET_LIFETIME_S
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Whether this ticket is good, for the first and only time."""
        found = [each for each in self._tickets if same(each, ticket)]
        return any(self._tickets.pop(each) > self._now() for each in found)


class _Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    nonce: Annotated[str, msgspec.Meta(min_length=16, max_length=64)]


class _Proof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    proof: str


class Greeting:
    """The daemon's side of the proof: hello with a nonce, our nonce and proof, their proof."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._nonces: tuple[str, str] | None = None

    def answer_hello(self, message: bytes) -> bytes:
        """Our nonce and proof. Raises ValueError when it is no hello."""
        self._nonces = (msgspec.json.decode(message, type=_Hello).nonce, secrets.token_urlsafe(16))
        return msgspec.json.encode({"nonce": self._nonces[1], "proof": prove(self._key, "daemon", *self._nonces)})

    @property
    def greeted(self) -> bool:
        return self._nonces is not None

    def is_proven(self, message: bytes) -> bool:
        """Whether they have the key. Raises ValueError when it is no proof."""
        assert self._nonces is not None  # noqa: S101 - a proof follows a hello
        return same(prove(self._key, "page", *self._nonces), msgspec.json.decode(message, type=_Proof).proof)


def prove(key: str, who: str, theirs: str, ours: str) -> str:
    """What only somebody with the key can say, and only in this conversation."""
    return hmac.new(key.encode(), f"{who} {theirs} {ours}".encode(), "sha256").hexdigest()


def same(ours: str, theirs: str) -> bool:
    """Compares without telling by its duration how much was right."""
    return hmac.compare_digest(ours.encode(), theirs.encode("utf-8", "surrogateescape"))
