"""The bodies of requests and answers, and how the OpenAPI page shows them.

A body is JSON whatever its Content-Type says: browsers send `text/plain` when a script sets none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from client_agent.protocol import batches
from client_agent.server.problems import BadRequest, BodyTooLarge

Reference = Annotated[str, Meta(min_length=1, max_length=200)]
NULL = msgspec.Raw(b"null")


def _null() -> msgspec.Raw:
    return NULL


class ExecuteBody(msgspec.Struct, frozen=True, kw_only=True):
    tool_name: Annotated[str, Meta(min_length=1, max_length=50)]
    tool_params: dict[str, Any]
    session_id: Reference | None = None
    agent_id: Reference | None = None


class ResultBody(msgspec.Struct, frozen=True, kw_only=True):
    """`result` is kept as it came: it can be large, and nothing in it concerns the server."""

    status: Literal["completed", "failed"]
    result: msgspec.Raw = msgspec.field(default_factory=_null)
    error: str | None = None


class BatchItem(ResultBody, frozen=True, kw_only=True):
    tool_id: Reference


class BatchBody(msgspec.Struct, frozen=True, kw_only=True):
    """Several results at once (see `protocol.batches`)."""

    results: Annotated[list[BatchItem], Meta(min_length=1, max_length=batches.MAX_RESULTS)]


class ApproveBody(msgspec.Struct, frozen=True, kw_only=True):
    decision: Literal["approved"]


class RejectBody(msgspec.Struct, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(max_length=1000)] | None = None


class CancelBody(msgspec.Struct, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(max_length=1000)] | None = None


class MessageBody(msgspec.Struct, frozen=True, kw_only=True):
    content: Annotated[str, Meta(min_length=1, max_length=1_000_000)]
    session_id: Reference | None = None


class ExecuteReply(msgspec.Struct, frozen=True, kw_only=True):
    tool_id: str
    tool_name: str
    status: str
    result: msgspec.Raw = msgspec.field(default_factory=_null)
    error: str | None = None
    approval_id: str | None = None


class CallReply(msgspec.Struct, frozen=True, kw_only=True):
    success: bool
    tool_id: str
    status: str
    message: str


class ApprovalReply(msgspec.Struct, frozen=True, kw_only=True):
    success: bool
    approval_id: str
    status: str


class ToolEntry(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    parameters: dict[str, Any]
    requires_approval: bool
    risk_level: str
    timeout_seconds: float


class ToolsReply(msgspec.Struct, frozen=True, kw_only=True):
    success: bool
    tools: list[ToolEntry]
    total_count: int


class RecordSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A call as the database has it, without its result. Parameters are masked."""

    id: str
    user_id: str
    project_id: str
    session_id: str | None
    agent_id: str | None
    approval_id: str | None
    tool_name: str
    tool_params: msgspec.Raw
    risk_level: str
    requires_approval: bool
    status: str
    error: str | None
    error_type: str | None
    execution_time_ms: int | None
    created_at: datetime
    approved_at: datetime | None
    cancel_requested_at: datetime | None
    completed_at: datetime | None


class Record(RecordSummary, frozen=True, kw_only=True):
    result: msgspec.Raw


class RecordsReply(msgspec.Struct, frozen=True, kw_only=True):
    success: bool
    tools: list[RecordSummary]
    total_count: int


class MessageReply(msgspec.Struct, frozen=True, kw_only=True):
    success: bool
    message_id: str
    timestamp: datetime


class HealthReply(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    version: str


class DeviceReply(msgspec.Struct, frozen=True, kw_only=True):
    device_code: str
    user_code: str
    verification_uri: str
    expires_in: int
    interval: int


class DeviceDecisionBody(msgspec.Struct, frozen=True, kw_only=True):
    user_code: Annotated[str, Meta(min_length=1, max_length=50)]
    decision: Literal["approved", "denied"]


class DeviceDecisionReply(msgspec.Struct, frozen=True, kw_only=True):
    success: bool
    status: str


class ProblemReply(msgspec.Struct, frozen=True, kw_only=True):
    success: bool
    message: str
    detail: str


B = TypeVar("B", bound=msgspec.Struct)


def json_response(reply: msgspec.Struct, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(reply), status, headers, media_type="application/json")


def body_reader(model: type[B]) -> Callable[[Request], Awaitable[B]]:
    """A dependency that gives the request's body as this model. No body at all counts as `{}`."""
    decoder = msgspec.json.Decoder(model)

    async def read(request: Request) -> B:
        raw = await read_bytes(request, request.app.state.services.settings.body_max_bytes)
        try:
            return decoder.decode(raw or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequest(f"the body is not what is expected: {error}") from None

    return read


async def read_bytes(request: Request, max_bytes: int) -> bytes:
    """The whole body. Raises BodyTooLarge, BadRequest."""
    problem = BodyTooLarge(f"the body is over the limit of {max_bytes} bytes")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise problem
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise problem
    except ClientDisconnect:
        raise BadRequest("the body was not sent to its end") from None
    return bytes(body)


_REFERENCE = "#/components/schemas/{name}"
_MODELS = (
    ExecuteBody, ResultBody, BatchBody, ApproveBody, RejectBody, CancelBody, MessageBody, ExecuteReply, CallReply,
    batches.BatchReply, ApprovalReply,
    ToolsReply, Record, RecordsReply, MessageReply, HealthReply, ProblemReply, DeviceDecisionBody, DeviceDecisionReply,
)  # fmt: skip


def schema_components() -> dict[str, Any]:
    """The schemas of all bodies, for the OpenAPI document."""
    _, components = msgspec.json.schema_components(_MODELS, ref_template=_REFERENCE)
    return components


def describe_route(
    reply: type[msgspec.Struct], *problems: int, body: type[msgspec.Struct] | None = None
) -> dict[str, Any]:
    """The keyword arguments that tell FastAPI's route decorators what goes in and out."""
    responses = {200: _content(reply), **{status: _content(ProblemReply) for status in (401, 404, *problems)}}
    described: dict[str, Any] = {"responses": responses, "response_class": Response}
    if body is not None:
        described["openapi_extra"] = {"requestBody": {**_content(body), "required": True}}
    return described


def _content(model: type[msgspec.Struct]) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(name=model.__name__)}
    return {"description": model.__name__, "content": {"application/json": {"schema": schema}}}
