"""A call: one requested execution of one tool."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for. Every field but the first three is a claim of the server and decides nothing by itself."""

    tool_id: str
    tool_name: str
    tool_params: dict[str, Any]
    approval_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    server_risk: str | None = None
    description: str = ""
    awaits_signal: bool = False  # so far the server has only asked for an approval
    # The tool_id of a call that the server asks about without its parameters. This one is the question alone, under an
    # id of its own: nothing runs for it.
    asked_for: str | None = None

    @property
    def fingerprint(self) -> str:
        """Equal for equal tool and parameters only: an approval is bound to this."""
        return fingerprint(self.tool_name, self.tool_params)


def fingerprint(tool_name: str, tool_params: dict[str, Any]) -> str:
    """SHA-256 over the tool's name and its parameters in one canonical spelling."""
    canonical = msgspec.json.encode([tool_name, tool_params], order="deterministic")
    return hashlib.sha256(canonical).hexdigest()
