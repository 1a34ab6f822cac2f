"""The secrets of one start of the daemon: tickets for the page, and what a ticket is exchanged for.

A ticket travels in the fragment of the page's address, which no browser sends anywhere, works once, and not for long.
It is exchanged for two things, and the page needs both: a cookie, and a key that the page keeps for itself. The cookie
alone would not do: browsers send it to every port of 127.0.0.1, and so to programs that are not ours.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable

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


def same(ours: str, theirs: str) -> bool:
    """Compares without telling by its duration how much was right."""
    return hmac.compare_digest(ours.encode(), theirs.encode("utf-8", "surrogateescape"))
