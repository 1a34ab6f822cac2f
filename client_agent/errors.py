"""The error tree.

    ClientAgentError            has a stable code, a message a person can act on, and details
    ├── UserError               the person at this laptop can put it right; exit code 2
    │   └── ConfigError         names the file, the key, what was found, what is expected
    ├── CallError               a call cannot be carried out; becomes its `failed` result
    │   ├── InvalidParameters   the parameters do not fit the tool
    │   ├── AccessRefused       outside the workspace, protected, or otherwise not allowed
    │   ├── MissingFile         no such file or directory
    │   ├── WrongKind           a directory, FIFO, device or socket where a file is needed, or the reverse
    │   ├── TooLarge            over a limit
    │   ├── StaleContent        the file is not what the caller thinks it is
    │   ├── SystemRefused       the operating system said no (permission, disk full, read-only)
    │   ├── Unavailable         the tool exists but cannot work here or now
    │   ├── NoSuchProcess       no command in the background has this name, for this session
    │   ├── CallCancelled       nobody wants it any more
    │   └── CommandEnded        a limit ended it; carries what it wrote until then
    ├── LinkError               the server cannot be reached or does not accept us
    └── JournalError            nothing may run, since nothing can be recorded

A refusal by policy, a rejection by the user and a non-zero exit are results, not exceptions (see `protocol.results`).
"""

from __future__ import annotations

from typing import Any


class ClientAgentError(Exception):
    """Base of every error this program raises on purpose."""

    code: str = "error"

    def __init__(self, message: str, *, code: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = details
        if code is not None:
            self.code = code


class UserError(ClientAgentError):
    """Something the person at this laptop can put right."""

    code = "usage"


class ConfigError(UserError):
    """A configuration value that cannot be used."""

    code = "config_invalid"


class CallError(ClientAgentError):
    """A call cannot be carried out. `wire_type` is the error type the server sees."""

    code = "failed"
    wire_type: str = "ToolError"
    output: dict[str, Any] | None = None  # what there is to show all the same


class InvalidParameters(CallError):
    code = "invalid_parameters"
    wire_type = "ValidationError"


class AccessRefused(CallError):
    code = "access_refused"
    wire_type = "SecurityError"


class MissingFile(CallError):
    code = "not_found"
    wire_type = "FileNotFoundError"


class WrongKind(CallError):
    code = "wrong_kind"
    wire_type = "ValidationError"


class TooLarge(CallError):
    code = "too_large"
    wire_type = "ValidationError"


class StaleContent(CallError):
    code = "stale_content"
    wire_type = "ConflictError"


class SystemRefused(CallError):
    code = "system_refused"
    wire_type = "PermissionError"


class Unavailable(CallError):
    code = "unavailable"
    wire_type = "UnavailableError"


class NoSuchProcess(CallError):
    code = "no_such_process"
    wire_type = "ProcessLookupError"


class CallCancelled(CallError):
    code = "cancelled"
    wire_type = "CancelledError"


class CommandEnded(CallError):
    """A command was ended before it ended itself. `output` is what it wrote until then."""

    code = "ended"
    wire_type = "LimitError"

    def __init__(self, message: str, *, code: str, wire_type: str, output: dict[str, Any]) -> None:
        super().__init__(message, code=code)
        self.wire_type = wire_type
        self.output = output


class LinkError(ClientAgentError):
    """The server cannot be reached, or does not accept us."""

    code = "link_failed"


class JournalError(ClientAgentError):
    """The journal cannot record, so nothing may run."""

    code = "journal_failed"
