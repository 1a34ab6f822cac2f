"""What is written into records and events about a call. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import Row

from client_agent.policy.decision import Decision, Verdict
from client_agent.protocol.calls import Call
from client_agent.protocol.masking import mask
from client_agent.protocol.results import failed
from client_agent.protocol.tools import find_spec
from client_agent.server.models import ERROR_MAX_CHARS
from client_agent.server.problems import BadRequest
from client_agent.server.records import now
from client_agent.server.wire import NULL, CallReply, ExecuteReply, ResultBody

# The error type of a refusal by its code; every other refusal is a matter of security.
_REFUSAL_TYPES = {
    "invalid_parameters": "ValidationError",
    "unknown_tool": "ValidationError",
    "too_large": "ValidationError",
    "unavailable": "UnavailableError",
}


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a call is asked for."""

    user_id: str
    project_id: str
    agent_id: str | None = None


def new_record(call: Call, origin: Origin, decision: Decision) -> dict[str, Any]:
    """The columns of a record, but for its state and what belongs to a state."""
    return {
        "id": call.tool_id,
        "user_id": origin.user_id,
        "project_id": origin.project_id,
        "session_id": call.session_id,
        "agent_id": origin.agent_id,
        "tool_name": call.tool_name,
        "tool_params": mask(call.tool_params),
        "risk_level": decision.risk.name,
        "requires_approval": decision.verdict is Verdict.ASK,
        "created_at": now(),
    }


def refusal_values(decision: Decision) -> dict[str, Any]:
    """The columns of a record whose call the judge has refused."""
    words = "; ".join(reason.text for reason in decision.reasons)
    error_type = _REFUSAL_TYPES.get(decision.code, "SecurityError")
    result = failed(decision.code, words, type=error_type).to_wire()["result"]
    return {
        "result": msgspec.Raw(msgspec.json.encode(result)),
        "error": words[:ERROR_MAX_CHARS],
        "error_type": error_type,
        "completed_at": now(),
    }


def question(record: Mapping[str, Any], call: Call, decision: Decision, timeout_s: float) -> dict[str, Any]:
    """The data of `tool.approval_request`."""
    spec = find_spec(call.tool_name)
    return {
        "approval_id": record["approval_id"],
        "tool_id": call.tool_id,
        "tool_name": call.tool_name,
        "risk_level": decision.risk.name,
        "timeout_seconds": timeout_s,
        "description": f"{call.tool_name}: " + "; ".join(reason.text for reason in decision.reasons),
        "timestamp": now(),
        "tool_params": call.tool_params,
        "server_id": spec.server_id if spec is not None else None,
        "agent_id": record["agent_id"],
        "session_id": call.session_id,
        "user_id": call.user_id,
    }


_SIGNAL_KEYS = ("tool_id", "tool_name", "tool_params", "approval_id", "session_id", "user_id")


def signal(call: Mapping[str, Any]) -> dict[str, Any]:
    """The data of `tool.execution_signal`, from a call or from the question that was asked about it."""
    return {**{key: call[key] for key in _SIGNAL_KEYS}, "timestamp": now()}


class _Failure(msgspec.Struct):
    type: str = "ToolError"


class _FailedResult(msgspec.Struct):
    error: _Failure = msgspec.field(default_factory=_Failure)


def check_result(body: ResultBody) -> None:
    """Raises BadRequest for what is well-formed JSON and still not a result."""
    try:
        text = bytes(body.result).decode()
    except UnicodeDecodeError:
        raise BadRequest("result: expected UTF-8 text") from None
    is_object = text.startswith("{")
    if not is_object and body.result != NULL:
        raise BadRequest("result: expected an object")
    if body.status == "completed" and not is_object:
        raise BadRequest("result: a completed call needs one")
    if body.status == "failed" and not body.error:
        raise BadRequest("error: a failed call needs one")


def result_values(call: Row[Any], body: ResultBody) -> dict[str, Any]:
    """The columns of a record whose call the client has answered."""
    completed_at = now()
    values: dict[str, Any] = {
        "completed_at": completed_at,
        "execution_time_ms": round((completed_at - call.approved_at).total_seconds() * 1000),
    }
    if body.result != NULL:
        values["result"] = body.result
    if body.status == "failed":
        values |= {"error": body.error or "", "error_type": _read_error_type(body.result)}
    return values


def _read_error_type(result: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(result, type=_FailedResult).error.type[:100]
    except (msgspec.DecodeError, RecursionError):
        return _Failure().type


def is_same_result(call: Row[Any], body: ResultBody) -> bool:
    """Whether the client has said exactly this before."""
    said_error = (body.error or "")[:ERROR_MAX_CHARS] if body.status == "failed" else None
    if call.approved_at is None or call.status != body.status.upper() or call.error != said_error:
        return False
    before, again = bytes(call.result or NULL), bytes(body.result)
    return before == again or msgspec.json.decode(before) == msgspec.json.decode(again)


def call_reply(outcome: ExecuteReply, message: str) -> CallReply:
    return CallReply(success=True, tool_id=outcome.tool_id, status=outcome.status, message=message)
