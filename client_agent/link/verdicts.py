"""What each answer of the server means: one table for the stream, one for posts. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, StrEnum

import msgspec

from client_agent.link.status import LinkState

EVENT_STREAM = "text/event-stream"
WEB_PAGE = frozenset({"text/html", "application/xhtml+xml"})
PORTAL = 511  # "Network Authentication Required" (RFC 6585)
LOGIN_PAGE_DETAIL = (
    "a web page answers where the server should: log in to this network in a browser, "
    "or change `server` in the configuration if that is where the page is"
)
RETRY_AFTER_MAX_S = 3600.0  # a server may send us away for an hour, not for a year


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A response, reduced to what decides."""

    status: int
    content_type: str = ""
    retry_after: str = ""
    excerpt: str = ""  # the beginning of the body, printable
    body: bytes = b""  # the same, longer, as it came

    @property
    def media_type(self) -> str:
        return self.content_type.partition(";")[0].strip().lower()

    def __str__(self) -> str:
        return f"the server answered {self.status}" + (f": {self.excerpt}" if self.excerpt else "")


class Pace(Enum):
    """When to try the stream again."""

    AT_ONCE = "at once"
    BACKOFF = "backoff"  # it may heal by itself: soon, then ever more rarely
    SLOW = "slow"  # someone must change something: at the longest interval from the start


class StreamVerdict(msgspec.Struct, frozen=True):
    """The state the stream is in now, and when to try again (`at_least_s`: the server named a time)."""

    state: LinkState
    pace: Pace
    detail: str = ""
    at_least_s: float = 0.0


class Outcome(StrEnum):
    """What became of a post."""

    DELIVERED = "delivered"
    UNAUTHORIZED = "unauthorized"  # keep it until there is a token that the server takes
    REFUSED = "refused"  # the same again would be refused again: dead letter
    TOO_LARGE = "too large"  # a shortened one may be taken
    RETRY = "retry"  # with backoff, not before `retry_after_s`


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one post. `status` is None when no answer came."""

    outcome: Outcome
    detail: str = ""
    retry_after_s: float = 0.0
    status: int | None = None
    body: bytes = b""


def judge_stream(answer: Answer, now: datetime) -> StreamVerdict:
    """The verdict on the answer to `GET …/chat/stream`; CONNECTED only for a 200 event stream.

    A 204 tells a browser to stop for good. A daemon has nobody who reloads the page, so it asks again at the slow pace.
    """
    state, pace, detail = LinkState.RETRYING, Pace.BACKOFF, str(answer)
    match answer.status:
        case 200 if answer.media_type == EVENT_STREAM:
            return StreamVerdict(LinkState.CONNECTED, Pace.BACKOFF)
        case 204:
            state, pace = LinkState.STOPPED_BY_SERVER, Pace.SLOW
        case status if status == PORTAL or (status < 300 and answer.media_type in WEB_PAGE):  # noqa: PLR2004
            state, detail = LinkState.LOGIN_PAGE, LOGIN_PAGE_DETAIL
        case status if 200 <= status < 300:  # noqa: PLR2004
            state, pace = LinkState.NOT_A_STREAM, Pace.SLOW
            detail = f"the server answered {status} with {answer.media_type or 'no type'!r}, expected {EVENT_STREAM!r}"
        case 401:
            state, pace = LinkState.UNAUTHORIZED, Pace.SLOW
        case 403:
            state, pace = LinkState.FORBIDDEN, Pace.SLOW
        case 404 | 410:
            state, pace = LinkState.NO_SUCH_PROJECT, Pace.SLOW
        case 408 | 425 | 429:
            pass  # "not now"
        case status if status < 500:  # noqa: PLR2004
            pace = Pace.SLOW
    return StreamVerdict(state, pace, detail, read_retry_after_s(answer.retry_after, now))


def judge_post(answer: Answer, now: datetime) -> Delivery:
    """The verdict on the answer to a post of a result, an approval or a rejection."""
    match answer.status:
        case status if status == PORTAL or (200 <= status < 300 and answer.media_type in WEB_PAGE):  # noqa: PLR2004
            outcome = Outcome.RETRY  # the login page of some network, not our server
        case status if 200 <= status < 300:  # noqa: PLR2004
            outcome = Outcome.DELIVERED
        case 409:
            outcome = Outcome.DELIVERED  # the server has it already
        case 401:
            outcome = Outcome.UNAUTHORIZED
        case 413:
            outcome = Outcome.TOO_LARGE
        case 407 | 408 | 425 | 429:
            outcome = Outcome.RETRY
        case status if 400 <= status < 500:  # noqa: PLR2004
            outcome = Outcome.REFUSED
        case _:  # 5xx; and redirects, which are refused elsewhere and heal when the address is put right
            outcome = Outcome.RETRY
    wait_s = read_retry_after_s(answer.retry_after, now) if outcome is Outcome.RETRY else 0.0
    return Delivery(outcome=outcome, detail=str(answer), retry_after_s=wait_s, status=answer.status, body=answer.body)


def read_retry_after_s(text: str, now: datetime) -> float:
    """`Retry-After` in seconds or as a date; 0 for none, nonsense or the past, and never above the maximum."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), RETRY_AFTER_MAX_S)
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:  # "-0000": UTC, with no word on where
            date = date.replace(tzinfo=UTC)
        return min(max((date - now).total_seconds(), 0.0), RETRY_AFTER_MAX_S)
    except (ValueError, OverflowError):
        return 0.0
