"""The audit log: every decision and what came of it, appended and never changed.

Two files a line an entry: `audit.jsonl` for programs, where each entry is chained to the one before by a hash over its
own bytes, and `audit.log` for people. When they grow too large they are renamed to `audit-<last entry's number>`, and
the chain goes on in new ones. Written by the journal's writer alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from client_agent.journal.database import translating
from client_agent.protocol.calls import Call
from client_agent.protocol.masking import mask, mask_text
from client_agent.protocol.tools import find_spec

MAX_FILE_BYTES = 10_000_000
KEPT_FILES = 10
NO_HASH = "0" * 64

_ENDING = re.compile(rb',"hash":"([0-9a-f]{64})"}$')
_BARE = re.compile(r"[\w./:@%+,=~*-]+")
# What a tool does, and which of its parameters says to what.
_OPERATIONS: dict[str, tuple[str, str]] = {
    "read_file": ("READ", "path"),
    "write_file": ("WRITE", "path"),
    "list_directory": ("LIST", "path"),
    "execute_command": ("EXECUTE", "command"),
    "process_output": ("OUTPUT", "process_id"),
    "process_input": ("INPUT", "process_id"),
    "process_kill": ("KILL", "process_id"),
    "file_upload": ("UPLOAD", "filename"),
    "file_download": ("DOWNLOAD", "file_path"),
    "file_semantic_search": ("SEARCH", "query"),
    "sys_monitor": ("MONITOR", "metrics"),
}
_TARGET_NAMES = dict(_OPERATIONS.values())


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that was decided or done."""

    time: datetime  # UTC
    operation: str  # READ, WRITE, LIST, EXECUTE, …
    status: str  # success, denied, failed, asked, …
    workspace: str = ""
    tool_id: str = ""
    tool_name: str = ""
    target: str = ""  # the path, command or query
    user: str = ""
    decision: str = ""
    risk: str = ""
    reasons: tuple[str, ...] = ()
    rule_id: str = ""
    grant_id: str = ""
    approver: str = ""
    code: str = ""


class Head(msgspec.Struct, frozen=True):
    """The last entry of the log: its number and hash."""

    sequence: int
    hash: str


def describe(call: Call) -> tuple[str, str]:
    """What a call does, and to what, as an entry's `operation` and `target`. Secrets leave the latter in the log."""
    spec = find_spec(call.tool_name)
    name = spec.name if spec else call.tool_name
    operation, parameter = _OPERATIONS.get(name, (name[:40].upper(), "path"))
    value = call.tool_params.get(parameter, "")
    if operation == "EXECUTE":
        args = call.tool_params.get("args")
        masked = mask({"args": [value, *args] if isinstance(args, list) else [value]})
        return operation, shlex.join(str(part) for part in masked["args"])
    return operation, value if isinstance(value, str) else repr(value)


class AuditLog:
    """The open log. `fallback` is where the chain stood as far as the journal knows. Raises JournalError."""

    def __init__(self, directory: Path, *, fallback: Head | None = None, max_bytes: int = MAX_FILE_BYTES) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._path = directory / "audit.jsonl"
        self._text_path = directory / "audit.log"
        self._chain = self._text = -1
        self._size = self._synced_size = 0
        self.head = fallback or Head(0, NO_HASH)
        with translating(self._path):
            self._open()
            self._resume(self.head)

    def append(self, entries: list[AuditEntry]) -> None:
        """Write these entries, all or none."""
        with translating(self._path):
            self._append(entries)

    def sync(self) -> None:
        """Make what is written survive a loss of power."""
        if self._synced_size != self._size:
            with translating(self._path):
                os.fsync(self._chain)
            self._synced_size = self._size

    def close(self) -> None:
        for descriptor in (self._chain, self._text):
            if descriptor >= 0:
                os.close(descriptor)
        self._chain = self._text = -1

    def _append(self, entries: list[AuditEntry]) -> None:
        if self._chain < 0 or self._text < 0:
            self._open()
        if self._size >= self._max_bytes:
            self._rotate()
        head, lines, texts = self.head, [], []
        for entry in map(presentable, entries):
            head, line = chain(head, entry)
            lines.append(line)
            texts.append(text_line(entry))
        data = b"".join(lines)
        text_size = os.fstat(self._text).st_size
        try:
            _write(self._chain, data)
            _write(self._text, ("\n".join(texts) + "\n").encode("utf-8", "replace"))
        except OSError:  # take back the part that fitted: all will be written again
            os.ftruncate(self._chain, self._size)
            os.ftruncate(self._text, text_size)
            raise
        self._size += len(data)
        self.head = head

    def _open(self) -> None:
        self.close()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._chain = os.open(self._path, flags, 0o600)
        self._text = os.open(self._text_path, flags, 0o600)
        self._size = self._synced_size = os.fstat(self._chain).st_size

    def _resume(self, recorded: Head) -> None:
        """Go on where the log ends. What a crash or a hand has done to the end is said in the log itself."""
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.ftruncate(self._chain, len(whole))
            self._size = len(whole)
        found = _head_of(whole[whole.rfind(b"\n", 0, -1) + 1 : -1]) if whole else None
        if found is not None:
            self.head = found
        elif whole:
            self._rotate()
        if len(whole) < len(content):
            self._append(
                [_remark("torn_line_removed", f"a crash cut a line off after {len(content) - len(whole)} bytes")]
            )
        if found is not None and found.sequence < recorded.sequence:
            self._append([_remark("entries_missing", f"{found.sequence + 1} to {recorded.sequence} are missing here")])

    def _rotate(self) -> None:
        """Put the full files away under the number of their last entry, and drop the oldest."""
        self.close()
        number = f"{self.head.sequence:012d}"
        try:
            self._path.rename(self._directory / f"audit-{number}.jsonl")
            self._text_path.rename(self._directory / f"audit-{number}.log")
        finally:
            self._open()
        for kind in ("jsonl", "log"):
            for old in sorted(self._directory.glob(f"audit-*.{kind}"))[:-KEPT_FILES]:
                old.unlink()


def presentable(entry: AuditEntry) -> AuditEntry:
    """The entry without secrets."""
    reasons = tuple(mask_text(reason) for reason in entry.reasons)
    return msgspec.structs.replace(entry, target=mask_text(entry.target), reasons=reasons)


def chain(head: Head, entry: AuditEntry) -> tuple[Head, bytes]:
    """The entry as a line, chained to what stands before it, and the new end of the chain."""
    place = msgspec.json.encode(_Link(head.sequence + 1, head.hash))
    body = place[:-1] + b"," + _encode(entry)[1:]
    digest = hashlib.sha256(body).hexdigest()
    return Head(head.sequence + 1, digest), b'%s,"hash":"%s"}\n' % (body[:-1], digest.encode())


def _encode(entry: AuditEntry) -> bytes:
    try:
        return msgspec.json.encode(entry)
    except UnicodeEncodeError:  # a lone surrogate, as in a file name that is not text, must not stop the log
        texts = {name: _plain(text) for name, text in msgspec.structs.asdict(entry).items() if isinstance(text, str)}
        plain = msgspec.structs.replace(entry, reasons=tuple(map(_plain, entry.reasons)), **texts)
        return msgspec.json.encode(plain)


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def unchain(line: bytes) -> tuple[Head, str] | None:
    """The place of a line in the chain and the hash it follows; None when it is not what was once written."""
    ending = _ENDING.search(line)
    if ending is None:
        return None
    body = line[: ending.start()] + b"}"
    digest = hashlib.sha256(body).hexdigest()
    if digest != ending[1].decode():
        return None
    link = msgspec.json.decode(body, type=_Link)
    return Head(link.sequence, digest), link.prev


class _Link(msgspec.Struct, frozen=True):
    sequence: int
    prev: str


def _head_of(line: bytes) -> Head | None:
    place = unchain(line)
    return place[0] if place else None


def lost_entries(count: int) -> AuditEntry:
    """What stands for entries that could not be kept while nothing could be written."""
    reason = f"{count} entries could not be recorded while the disk took nothing"
    return _remark("entries_lost", reason)


def _remark(code: str, reason: str) -> AuditEntry:
    """Something that the log says of itself."""
    return AuditEntry(time=datetime.now(UTC), operation="AUDIT", status="failed", code=code, reasons=(reason,))


def text_line(entry: AuditEntry) -> str:
    """The entry for people: `[2025-12-30 12:34:56] [READ] path=notes.md … status=denied reason="…"`."""
    time = entry.time.astimezone(UTC).isoformat(" ", "seconds")[:19]
    fields = {
        _TARGET_NAMES.get(entry.operation, "path"): entry.target,
        "workspace": entry.workspace,
        "user": entry.user,
        "tool_id": entry.tool_id,
        "risk": entry.risk,
        "decision": entry.decision,
        "rule": entry.rule_id,
        "grant": entry.grant_id,
        "approver": entry.approver,
        "status": entry.status,
        "code": entry.code,
    }
    named = [(name, value) for name, value in fields.items() if value]
    if not _BARE.fullmatch("".join([value for _, value in named])):  # seldom: all of them are looked at together
        named = [(name, value if _BARE.fullmatch(value) else _quote(value)) for name, value in named]
    if entry.status != "success" and (reason := "; ".join(entry.reasons)):
        named.append(("reason", _quote(reason)))
    shown = " ".join([f"{name}={value}" for name, value in named])
    return f"[{time}] [{_visible(entry.operation)}] {shown}"


def _quote(value: str) -> str:
    """In quotes, so that no value can pass for another field or line."""
    return '"' + _visible(value.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else f"\\u{ord(ch):04x}" for ch in text)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
