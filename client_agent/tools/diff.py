"""A change as a unified diff."""

from __future__ import annotations

import difflib
import re

from client_agent.tools.text import decode, line_endings

# Beyond this a diff takes longer to make and to read than a person has.
MAX_COMPARED_BYTES = 1_000_000


def unified_diff(before: str, after: str, path: str) -> str:
    """The change from one text to the other; line endings that both have are no part of it."""
    if line_endings(before) == line_endings(after) == "crlf":
        before, after = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
    origin = path if before else "(new or empty file)"
    lines = difflib.unified_diff(_lines(before), _lines(after), origin, path, n=3)
    return "".join(line if line.endswith("\n") else line + "\n\\ no newline at the end\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Split at line feeds only: a line that the file does not have must not appear in its diff."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def compare(before: bytes, after: bytes, path: str) -> str:
    """The same for contents of files, or words on why there is no diff."""
    if max(len(before), len(after)) > MAX_COMPARED_BYTES:
        return f"(no comparison: {len(before)} and {len(after)} bytes are too many)"
    texts = [decode(data) if data else None for data in (before, after)]
    if any(data and text is None for data, text in zip((before, after), texts, strict=True)):
        return f"(no comparison: binary; {len(before)} bytes would become {len(after)})"
    old, new = (text[0] if text else "" for text in texts)
    return unified_diff(old, new, path)
