from __future__ import annotations

from datetime import UTC, datetime

import pytest

from client_agent.link.status import LinkState
from client_agent.link.verdicts import (
    RETRY_AFTER_MAX_S,
    Answer,
    Outcome,
    Pace,
    judge_post,
    judge_stream,
    read_retry_after_s,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("content_type", "opens"),
    [
        ("text/event-stream", True),
        ("text/event-stream;", True),
        ("Text/Event-Stream; charset=windows-1252", True),
        (" text/event-stream ;a=b;c=d", True),
        ("", False),
        ("x bogus", False),
        ("text/x-event-stream", False),
        ("text/event-streams", False),
        ("text/event-stream, text/html", False),
        ("application/json", False),
    ],
)
def test_only_an_event_stream_opens(content_type: str, opens: bool) -> None:
    verdict = judge_stream(Answer(status=200, content_type=content_type), NOW)
    assert verdict.state is (LinkState.CONNECTED if opens else LinkState.NOT_A_STREAM)


@pytest.mark.parametrize(
    ("status", "state", "pace"),
    [
        (201, LinkState.NOT_A_STREAM, Pace.SLOW),
        (204, LinkState.STOPPED_BY_SERVER, Pace.SLOW),
        (205, LinkState.NOT_A_STREAM, Pace.SLOW),
        (299, LinkState.NOT_A_STREAM, Pace.SLOW),
        (300, LinkState.RETRYING, Pace.SLOW),
        (304, LinkState.RETRYING, Pace.SLOW),
        (400, LinkState.RETRYING, Pace.SLOW),
        (401, LinkState.UNAUTHORIZED, Pace.SLOW),
        (403, LinkState.FORBIDDEN, Pace.SLOW),
        (404, LinkState.NO_SUCH_PROJECT, Pace.SLOW),
        (407, LinkState.RETRYING, Pace.SLOW),
        (408, LinkState.RETRYING, Pace.BACKOFF),
        (410, LinkState.NO_SUCH_PROJECT, Pace.SLOW),
        (425, LinkState.RETRYING, Pace.BACKOFF),
        (429, LinkState.RETRYING, Pace.BACKOFF),
        (500, LinkState.RETRYING, Pace.BACKOFF),
        (503, LinkState.RETRYING, Pace.BACKOFF),
        (599, LinkState.RETRYING, Pace.BACKOFF),
    ],
)
def test_what_else_the_stream_may_be_answered(status: int, state: LinkState, pace: Pace) -> None:
    answer = Answer(status=status, content_type="text/event-stream", retry_after="30", excerpt="why")
    verdict = judge_stream(answer, NOW)
    assert (verdict.state, verdict.pace, verdict.at_least_s) == (state, pace, 30)
    assert str(status) in verdict.detail


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        ([200, 201, 202, 204, 409], Outcome.DELIVERED),
        ([401], Outcome.UNAUTHORIZED),
        ([413], Outcome.TOO_LARGE),
        ([400, 402, 403, 404, 405, 406, 410, 411, 414, 415, 421, 422, 426, 431, 451, 499], Outcome.REFUSED),
        ([301, 302, 303, 304, 407, 408, 425, 429, 500, 501, 502, 503, 504, 507, 511, 599], Outcome.RETRY),
    ],
)
def test_what_a_post_may_be_answered(statuses: list[int], outcome: Outcome) -> None:
    for status in statuses:
        delivery = judge_post(Answer(status=status, content_type="application/json", retry_after="9"), NOW)
        assert (delivery.outcome, delivery.status) == (outcome, status)
        assert delivery.retry_after_s == (9 if outcome is Outcome.RETRY else 0)


def test_the_login_page_of_a_network_is_no_receipt() -> None:
    assert judge_post(Answer(status=200, content_type="text/html; charset=utf-8"), NOW).outcome is Outcome.RETRY


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0),
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        ("999999999999", RETRY_AFTER_MAX_S),
        ("9" * 5000, RETRY_AFTER_MAX_S),
        ("-5", 0),
        ("1.5", 0),
        ("٣", 0),
        ("soon", 0),
        ("Sun, 01 Mar 2026 12:01:30 GMT", 90),
        ("Sun, 01 Mar 2026 12:01:30 -0000", 90),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
        ("Mon, 01 Mar 2027 12:00:00 GMT", RETRY_AFTER_MAX_S),
        ("Sun, 99 Mar 2026 12:00:00 GMT", 0),
    ],
)
def test_retry_after_is_read_as_seconds_or_date_and_bounded(text: str, seconds: float) -> None:
    assert read_retry_after_s(text, NOW) == seconds
