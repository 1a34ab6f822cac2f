"""One look at a server, without a token: does anybody answer, is its certificate believed, what does its clock say."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec
from yarl import URL

from client_agent.config import Link
from client_agent.errors import LinkError
from client_agent.link.http import TRANSPORT_ERRORS, HttpPool, describe


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `problem` is empty when the server answered; `skew_s` is how far our clock is ahead of its."""

    problem: str = ""
    status: int | None = None
    media_type: str = ""
    skew_s: float | None = None


async def probe(settings: Link, server: str) -> Probe:
    """Asks for the server's own address once. Raises ConfigError for a proxy or CA that cannot be used."""
    url = URL(server)
    pool = HttpPool(settings, url)
    pool.open()
    try:
        async with asyncio.timeout(settings.connect_timeout_s), pool.stream(url, {}) as response:
            return Probe(
                status=response.status_code,
                media_type=response.headers.get("content-type", "").partition(";")[0],
                skew_s=_skew_s(response.headers.get("date", "")),
            )
    except TimeoutError:
        return Probe(problem=f"no answer within {settings.connect_timeout_s:g} s")
    except LinkError as error:
        return Probe(problem=error.message)
    except TRANSPORT_ERRORS as error:
        return Probe(problem=describe(error))
    finally:
        await pool.close()


def _skew_s(date: str) -> float | None:
    try:
        told = parsedate_to_datetime(date)
    except ValueError:
        return None
    aware = told if told.tzinfo is not None else told.replace(tzinfo=UTC)
    return (datetime.now(UTC) - aware).total_seconds()
