"""Several results in one post, for servers that offer it: by a header of the event stream that says how many at most.

    POST /my/projects/{p}/tools/results
    {"results": [{"tool_id": …, "status": "completed", "result": {…}}, …]}
    → 200 {"success": true, "results": [{"tool_id": …, "code": 200, "message": …}, …]}

`code` is what a post of that result alone would have been answered with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

HEADER = "Tool-Results-Batch-Max"
MAX_RESULTS = 64


class Verdict(msgspec.Struct, frozen=True):
    """What became of one result of a batch."""

    tool_id: str
    code: Annotated[int, Meta(ge=100, le=599)]
    message: str = ""


class BatchReply(msgspec.Struct, frozen=True):
    success: bool
    results: list[Verdict]


_decoder = msgspec.json.Decoder(BatchReply)


def read_offer(header: str) -> int:
    """How many results the server takes at once, and we send; 0 for none."""
    return min(int(header), MAX_RESULTS) if header.isascii() and header.isdigit() and len(header) < 10 else 0  # noqa: PLR2004


def pack(results: Iterable[tuple[str, bytes]]) -> bytes:
    """The body of a batch, of ids and the bodies that would be posted one by one: JSON objects that are not empty."""
    items = [b'{"tool_id":%b,%b' % (msgspec.json.encode(tool_id), body[1:]) for tool_id, body in results]
    return b'{"results":[%b]}' % b",".join(items)


def read_verdicts(body: bytes) -> dict[str, Verdict] | None:
    """What the server says of each; None where this is no answer to a batch."""
    try:
        return {verdict.tool_id: verdict for verdict in _decoder.decode(body).results}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
