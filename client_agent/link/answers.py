"""An answer of the server, reduced to what decides, and to an excerpt that can be shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from client_agent.link.verdicts import Answer

MAX_BODY_BYTES = 65_536  # of an answer; the rest is not read
EXCERPT_CHARS = 200


async def make_answer(status: int, headers: Mapping[str, str], chunks: AsyncIterator[bytes]) -> Answer:
    """The answer with the beginning of its body."""
    return describe_answer(status, headers, await read_start(chunks))


def describe_answer(status: int, headers: Mapping[str, str], start: bytes) -> Answer:
    return Answer(
        status=status,
        content_type=headers.get("content-type", ""),
        retry_after=headers.get("retry-after", ""),
        excerpt=_printable(start.decode("utf-8", "replace")[: 4 * EXCERPT_CHARS])[:EXCERPT_CHARS],
        body=start,
    )


def _printable(text: str) -> str:
    """On one line, without what would do something to a terminal."""
    shown = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    return " ".join(shown.split())


async def read_start(chunks: AsyncIterator[bytes]) -> bytes:
    """The body, as far as the limit. What is left unread costs the connection, not the memory."""
    start = bytearray()
    async for chunk in chunks:
        start += chunk
        if len(start) >= MAX_BODY_BYTES:
            break
    return bytes(start[:MAX_BODY_BYTES])
