"""The events a server sends, from both shapes and all spellings seen, into typed messages.

An event is `event: NAME` with the bare data object, or `{"event": NAME, "data": {…}}` whatever the SSE name. Unknown
events and unknown fields are ignored; an event that cannot be understood becomes `Malformed`, with the `tool_id` where
one can be read, so that the server can be told.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from client_agent.protocol.calls import Call
from client_agent.protocol.salvage import Place, read_texts

# Ids are put into addresses and file names: a short, dull alphabet, and never a dot first.
Identifier = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~:-]{0,127}\Z")]
Name = Annotated[str, Meta(pattern=r"^[!-~]{1,200}\Z")]
# Deeper than any tool's parameters, and far from what encoding them again could stumble over.
MAX_DEPTH = 64


class _Data(msgspec.Struct, frozen=True, kw_only=True):
    timestamp: str | None = None


class ApprovalRequest(_Data, frozen=True):
    """The server asks for the user's approval before it signals."""

    approval_id: Identifier
    tool_id: Identifier
    tool_name: Name
    risk_level: str | None = None
    timeout_seconds: float | None = None
    description: str | None = None
    tool_params: dict[str, Any] | None = None
    server_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None

    def to_call(self) -> Call:
        """The call asked about; where the server does not say with which parameters, the question alone."""
        blind = self.tool_params is None
        return Call(
            tool_id=f"approval/{self.approval_id}" if blind else self.tool_id,  # no tool_id has a slash
            tool_name=self.tool_name,
            tool_params=self.tool_params or {},
            approval_id=self.approval_id,
            session_id=self.session_id,
            user_id=self.user_id,
            server_risk=self.risk_level,
            description=self.description or "",
            awaits_signal=True,
            asked_for=self.tool_id if blind else None,
        )


class ExecutionSignal(_Data, frozen=True):
    """The server wants a call carried out now."""

    tool_id: Identifier
    tool_name: Name
    tool_params: dict[str, Any]
    approval_id: Identifier | None = None
    session_id: str | None = None
    user_id: str | None = None
    risk_level: str | None = None

    def to_call(self) -> Call:
        return Call(
            tool_id=self.tool_id,
            tool_name=self.tool_name,
            tool_params=self.tool_params,
            approval_id=self.approval_id,
            session_id=self.session_id,
            user_id=self.user_id,
            server_risk=self.risk_level,
        )


class ResultAck(_Data, frozen=True):
    """The server has a result of ours."""

    tool_id: Identifier
    status: str = "received"


class Cancel(_Data, frozen=True):
    """The server no longer wants a call."""

    tool_id: Identifier
    reason: str | None = None


class Ignored(msgspec.Struct, frozen=True):
    """An event that is none of ours."""

    name: str


class Malformed(msgspec.Struct, frozen=True):
    """An event of ours that cannot be understood."""

    name: str
    problem: str
    tool_id: str | None = None


Message: TypeAlias = ApprovalRequest | ExecutionSignal | ResultAck | Cancel | Ignored | Malformed

_TYPES: dict[str, type[ApprovalRequest | ExecutionSignal | ResultAck | Cancel]] = {
    "tool.approval_request": ApprovalRequest,
    "tool.approval": ApprovalRequest,
    "tool.execution_signal": ExecutionSignal,
    "tool.execute": ExecutionSignal,
    "tool.result_ack": ResultAck,
    "tool.cancel": Cancel,
}


class _Envelope(msgspec.Struct):
    event: str
    data: msgspec.Raw


class _OnlyId(msgspec.Struct):
    tool_id: Identifier


_id_decoder = msgspec.json.Decoder(_OnlyId)
_envelope_decoder = msgspec.json.Decoder(_Envelope)
_decoders: dict[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(kind) for name, kind in _TYPES.items()}


def decode_event(name: str, data: str | bytes) -> Message:
    """The message that an SSE event of this name and data carries."""
    body: str | bytes | msgspec.Raw = data
    decoder = _decoders.get(name)
    if decoder is None or _looks_enveloped(data):
        envelope = _open_envelope(data)
        if isinstance(envelope, _Envelope) and (decoder is None or envelope.event in _decoders):
            name, body = envelope.event, envelope.data
            decoder = _decoders.get(name)
        elif decoder is None and envelope is not None:
            told = malformed(name, str(envelope), data)
            return told if told.name in _TYPES else Ignored(name)
        if decoder is None:
            return Ignored(name)
    try:
        message: ApprovalRequest | ExecutionSignal | ResultAck | Cancel = decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        if body is data and isinstance(_open_envelope(data), _Envelope):
            return decode_event("", data)  # with much before its name
        return malformed(name, str(error), body)
    if isinstance(message, ApprovalRequest | ExecutionSignal) and _is_too_deep(message.tool_params):
        return Malformed(name, f"tool_params are nested more than {MAX_DEPTH} levels deep", message.tool_id)
    return message


def malformed(name: str, problem: str, body: str | bytes | msgspec.Raw) -> Malformed:
    """What cannot be understood. Only an event that asks for something is answered, and has its `tool_id` read."""
    if name not in _TYPES:
        name = _read_texts(body).get(("event",), name)
    asks = _TYPES.get(name) in (ApprovalRequest, ExecutionSignal)
    return Malformed(name, problem, _read_tool_id(body) if asks else None)


def _open_envelope(data: str | bytes) -> _Envelope | Exception | None:
    """The envelope; nothing where it is something else; what went wrong where it cannot be read at all."""
    try:
        return _envelope_decoder.decode(data)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, RecursionError) as error:
        return error


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def _looks_enveloped(data: str | bytes) -> bool:
    """Cheap test that spares bare objects, the common case, a second parse."""
    head = data[:64]
    return '"event"' in head if isinstance(head, str) else b'"event"' in head


def _read_tool_id(body: str | bytes | msgspec.Raw) -> str | None:
    try:
        return _id_decoder.decode(body).tool_id
    except (msgspec.DecodeError, RecursionError):
        pass
    texts = _read_texts(body)
    try:
        return msgspec.convert(texts.get(("tool_id",)) or texts.get(("data", "tool_id")), Identifier)
    except msgspec.ValidationError:
        return None


def _read_texts(body: str | bytes | msgspec.Raw) -> dict[Place, str]:
    return read_texts(body if isinstance(body, str) else bytes(body).decode("utf-8", "replace"))
