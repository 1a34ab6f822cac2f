"""`write_file`: replaces or extends a text file in one step, in the way the file is already written.

A file that exists keeps its encoding, its byte order mark and, where all its lines end in CRLF, those line endings.
Text that its encoding cannot hold makes it UTF-8, or is refused when it would only be added to the rest.
"""

from __future__ import annotations

from typing import Any

from client_agent.config import Workspace
from client_agent.errors import (
    CallError,
    InvalidParameters,
    JournalError,
    MissingFile,
    SystemRefused,
    TooLarge,
    Unavailable,
    WrongKind,
)
from client_agent.journal.writes import MAX_KEPT_BYTES
from client_agent.policy.files import refuse_extension
from client_agent.protocol.tools import WriteFile
from client_agent.tools.diff import MAX_COMPARED_BYTES, unified_diff
from client_agent.tools.text import UTF_8, Decoded, Encoding, decode, line_endings
from client_agent.tools.tool import ToolContext, format_time, in_thread, spec_of
from client_agent.workspace.failures import show
from client_agent.workspace.root import Root
from client_agent.workspace.writing import Judge, Parents, WriteMode


class WriteFileTool:
    spec = spec_of("write_file")
    cancellable = False

    async def run(self, params: WriteFile, context: ToolContext) -> dict[str, Any]:
        return await in_thread(_write, params, context)

    def preview(self, params: WriteFile, context: ToolContext) -> str:
        """The change as a unified diff, in the encoding and with the line endings that the file would get."""
        mode = WriteMode(params.mode)
        try:
            found = context.root.read(params.path, MAX_COMPARED_BYTES)
            old = decode(found.data) if found.data else None
            if old is None and found.data:
                return f"(no comparison: the file is binary; its {len(found.data)} bytes would be replaced)"
        except MissingFile:
            old = None
        except CallError as error:
            lost = " for good" if error.details.get("size", 0) > MAX_KEPT_BYTES else ""
            return f"(no comparison: {error.message}; what the file holds now would be replaced{lost})"
        before = old[0] if old else ""
        content, _ = _adapt(params.content, old)
        after = before + content if mode is WriteMode.APPEND else content
        if len(after) > MAX_COMPARED_BYTES:
            return f"(no comparison: {len(after)} characters are too many)"
        return unified_diff(before, after, params.path)


def _write(params: WriteFile, context: ToolContext) -> dict[str, Any]:
    mode = WriteMode(params.mode)
    max_bytes = context.workspace.limits.write_max_bytes
    content, old_encoding = _adapt(params.content, _read_old(context.root, params.path, mode, max_bytes))
    data, encoding = _encode(content, mode, old_encoding, params.path)
    try:
        written = context.root.write(
            params.path,
            data,
            mode=mode,
            parents=Parents.CREATE if params.create_dirs else Parents.REQUIRED,
            expected_hash=params.expected_hash,
            max_bytes=max_bytes,
            judge=judge_extension(context.workspace),
            keeper=context.keeping(context.permit.tool_id) if context.keeping else None,
        )
    except JournalError as error:
        message = f"nothing was written, since what the file holds now cannot be kept for undo: {error.message}"
        raise Unavailable(message, code="not_kept") from None
    return {
        "path": written.relative,
        "size": written.size,
        "timestamp": format_time(written.modified_ns),
        "created": written.created,
        "encoding": encoding.name,
        "line_endings": line_endings(content),
        "hash": written.hash,
    }


def _read_old(root: Root, path: str, mode: WriteMode, max_bytes: int) -> Decoded | None:
    """How the file is written so far; None when there is none, or nothing worth keeping."""
    try:
        data = root.read(path, max_bytes).data
    except (MissingFile, SystemRefused, TooLarge):  # if that stands in the way of writing, the write will say so
        return None
    decoded = decode(data) if data else None
    if decoded is None and data and mode is WriteMode.APPEND:
        raise WrongKind(f"{show(path)} is a binary file; text is not added to it", code="binary_file", path=path)
    return decoded


def _adapt(content: str, old: Decoded | None) -> tuple[str, Encoding | None]:
    if old is None:
        return content, None
    text, encoding = old
    if line_endings(text) == "crlf" and "\r" not in content:
        content = content.replace("\n", "\r\n")
    return content, encoding


def _encode(content: str, mode: WriteMode, old: Encoding | None, path: str) -> tuple[bytes, Encoding]:
    for encoding in (old or UTF_8, UTF_8):
        try:
            data = encoding.encode(content)
        except UnicodeEncodeError:
            if mode is WriteMode.APPEND:
                break
        else:
            return data if mode is WriteMode.APPEND else encoding.mark + data, encoding
    name = (old or UTF_8).name
    raise InvalidParameters(
        f"the content holds characters that {show(path)}, written in {name}, cannot hold",
        code="content_not_encodable",
        path=path,
        encoding=name,
    )


def judge_extension(workspace: Workspace) -> Judge:
    """Extensions are refused on the real path too: `notes.txt` may be a link to `lib.so`."""
    return lambda relative: refuse_extension(relative, workspace)
