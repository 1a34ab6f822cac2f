"""What became of a call, and how it is told to the server."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from client_agent.errors import CallError


class CallFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call did not do what was asked."""

    type: str  # the seed's word: ValidationError, FileNotFoundError, SecurityError, TimeoutError, …
    code: str  # stable, for programs
    message: str  # for people and models
    details: dict[str, Any] = {}


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The one outcome of a call: `output` when it completed, `failure` when not."""

    output: dict[str, Any] | None = None
    failure: CallFailure | None = None

    @property
    def status(self) -> Literal["completed", "failed"]:
        return "completed" if self.failure is None else "failed"

    def to_wire(self) -> dict[str, Any]:
        """The body of `POST …/result`. A failure is said twice: in words, and structured for the agent."""
        if self.failure is None:
            return {"status": "completed", "result": {"success": True, **(self.output or {})}}
        return {
            "status": "failed",
            "error": self.failure.message,
            "result": {"success": False, **(self.output or {}), "error": msgspec.to_builtins(self.failure)},
        }


def completed(output: dict[str, Any]) -> CallResult:
    return CallResult(output=output)


def failed(code: str, message: str, *, type: str = "ToolError", **details: Any) -> CallResult:  # noqa: A002
    return CallResult(failure=CallFailure(type=type, code=code, message=message, details=details))


def failed_by(error: CallError) -> CallResult:
    failure = CallFailure(type=error.wire_type, code=error.code, message=error.message, details=error.details)
    return CallResult(output=error.output, failure=failure)
