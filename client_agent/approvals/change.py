"""What a write would change, as a unified diff that a person reads before answering."""

from __future__ import annotations

import difflib

import msgspec

from client_agent.errors import CallError, InvalidParameters, MissingFile
from client_agent.protocol.calls import Call
from client_agent.protocol.tools import WriteFile, find_spec, parse_params
from client_agent.workspace.root import Root

# Beyond this a diff takes longer to make and to read than a person has.
_MAX_BYTES = 1_000_000


def describe_change(call: Call, root: Root) -> str:
    """The diff that a write would make; "" for calls that write no file. Blocking: it reads the file."""
    spec = find_spec(call.tool_name)
    if spec is None or spec.params is not WriteFile:
        return ""
    try:
        params = msgspec.convert(parse_params(spec, call.tool_params), WriteFile)
        before = root.read(params.path, _MAX_BYTES).data.decode("utf-8", "replace")
        origin = params.path
    except InvalidParameters:
        return ""
    except MissingFile:
        before, origin = "", "(new file)"
    except CallError as error:
        return f"(no preview: {error.message})"
    after = before + params.content if params.mode == "append" else params.content
    if len(after) > _MAX_BYTES:
        return f"(no preview: {len(after)} characters are too many to compare)"
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), origin, params.path, n=3
    )
    return "".join(line if line.endswith("\n") else line + "\n\\ no newline at the end\n" for line in lines)


def count_changes(diff: str) -> tuple[int, int]:
    """Lines added and removed."""
    lines = diff.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    return added, removed
