"""`read_file`: text in whatever encoding, PDF and images as base64, nothing else."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from client_agent.errors import WrongKind
from client_agent.protocol.tools import ReadFile
from client_agent.tools.text import Data, decode, decode_surely
from client_agent.tools.tool import ToolContext, format_time, in_thread, spec_of
from client_agent.workspace.failures import show
from client_agent.workspace.reading import FileBytes
from client_agent.workspace.root import NotCached

HASH_MAX_BYTES = 262_144  # of more than that, the hash would take longer than everything else about a read
_MEDIA = (
    b"%PDF-",
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",  # JPEG
    b"GIF87a",
    b"GIF89a",
    b"II*\0",  # TIFF
    b"MM\0*",
    b"\0\0\1\0",  # Windows icon
)
_FTYP_BRANDS = (b"ftypavif", b"ftypheic", b"ftypheix", b"ftypmif1")


class ReadFileTool:
    spec = spec_of("read_file")
    cancellable = False
    preview = None

    async def run(self, params: ReadFile, context: ToolContext) -> dict[str, Any]:
        """A small file that the system has in memory is read at once, anything else in a thread."""
        max_bytes = context.workspace.limits.read_max_bytes
        try:
            file = context.root.read_cached(params.path, max_bytes)
        except NotCached:
            return await in_thread(_read, params.path, context, max_bytes)
        output = _present_surely(file)
        return output if output is not None else await in_thread(_present, file, params.path)


def _read(path: str, context: ToolContext, max_bytes: int) -> dict[str, Any]:
    return _present(context.root.read(path, max_bytes), path)


def _present(file: FileBytes, path: str) -> dict[str, Any]:
    output = _present_surely(file)
    if output is not None:
        return output
    decoded = decode(file.data)
    if decoded is None:
        raise WrongKind(
            f"{show(path)} is a binary file; only text, PDF and images are read", code="binary_file", path=path
        )
    return _output(file, decoded[0], decoded[1].name)


def _present_surely(file: FileBytes) -> dict[str, Any] | None:
    """The output, unless the encoding has to be guessed or there is none."""
    if _is_media(file.data[:16]):
        return _output(file, base64.b64encode(file.data).decode(), "base64")
    decoded = decode_surely(file.data)
    return _output(file, decoded[0], decoded[1].name) if decoded is not None else None


def _is_media(head: Data) -> bool:
    """Whether the content begins as a PDF or an image does; the name of a file proves nothing."""
    return (
        head.startswith(_MEDIA)
        or head[4:12] in _FTYP_BRANDS
        or (head.startswith(b"RIFF") and head[8:12] == b"WEBP")
        or (head.startswith(b"BM") and head[6:10] == bytes(4))  # two letters alone would be many a text
    )


def _output(file: FileBytes, content: str, encoding: str) -> dict[str, Any]:
    """`hash` is what `write_file` takes as `expected_hash`; that of a large file can be made of its content."""
    output = {
        "content": content,
        "encoding": encoding,
        "size": len(file.data),
        "path": file.relative,
        "modified": format_time(file.modified_ns),
    }
    if len(file.data) <= HASH_MAX_BYTES:
        output["hash"] = hashlib.sha256(file.data).hexdigest()
    return output
