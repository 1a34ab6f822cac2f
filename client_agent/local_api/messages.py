"""The protocol of the door: requests with an id, one reply each, and events in between. JSON, one object a message.

→ {"id": 1, "op": "questions.answer", "args": {"id": "…", "answer": "approve"}}
← {"id": 1, "result": {…}}    or    {"id": 1, "error": {"code": "…", "message": "…"}}
← {"event": "question_closed", "data": {…}}
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_REQUEST_BYTES = 64_000


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: int
    op: str
    args: dict[str, Any] = {}


def encode_result(request_id: int, result: Any) -> bytes:
    return msgspec.json.encode({"id": request_id, "result": result})


def encode_error(request_id: int | None, code: str, message: str) -> bytes:
    return msgspec.json.encode({"id": request_id, "error": {"code": code, "message": message}})


def encode_event(name: str, data: Any) -> bytes:
    return msgspec.json.encode({"event": name, "data": data})
