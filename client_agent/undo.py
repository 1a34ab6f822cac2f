"""Taking a write back: the file gets the content that was kept before it, if it still holds what was written.

Only the person at this laptop can ask for it, never a server. What is judged is the opened file, through the guards of
a write; and since an undo is recorded as a write, it can be undone in turn. What commands write is not kept.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from client_agent import config
from client_agent.errors import CallError, MissingFile, StaleContent, Unavailable, UserError
from client_agent.journal.audit import AuditEntry
from client_agent.journal.writes import MAX_KEPT_BYTES, Keeper, Write, Writes
from client_agent.policy.decision import Reason
from client_agent.tools.diff import compare
from client_agent.tools.write_file import judge_extension
from client_agent.workspace.failures import show
from client_agent.workspace.root import Root
from client_agent.workspace.writing import Judge, Parents


class Action(StrEnum):
    RESTORE = "restore"  # the file gets its old content back
    REMOVE = "remove"  # the write made the file
    CREATE = "create"  # an undo removed the file


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo would do. It can only do this: a file that holds anything else is left alone."""

    write: Write
    action: Action
    change: str  # a unified diff


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo did. `id` is its own, by which it can be undone."""

    id: str
    preview: Preview


class Place(msgspec.Struct, frozen=True):
    """The workspace a write was made in, open."""

    workspace: config.Workspace
    root: Root


# The workspace of a write. Raises UserError where it is not to be had.
Open = Callable[[Write], AbstractContextManager[Place]]


class Undo:
    """Takes back the writes of one state directory. Blocking: it reads and writes files."""

    def __init__(self, writes: Writes, open_place: Open, note: Callable[[AuditEntry], None]) -> None:
        self._writes = writes
        self._open_place = open_place
        self._note = note

    def recent(self, *, workspace: str | None = None, limit: int = 100) -> list[Write]:
        """What was written, newest first, undos among it."""
        return self._writes.recent(workspace=workspace, limit=limit)

    def preview(self, write_id: str, workspace: str | None = None) -> Preview:
        """What undoing this write would do. Raises UserError or CallError when it cannot be done."""
        write = self._find(write_id, workspace)
        with self._open_place(write) as place:
            return self._preview(write, place)

    def apply(self, write_id: str, workspace: str | None, *, by: str) -> Undone:
        """Does it. Raises as `preview` does; then nothing has changed."""
        write = self._find(write_id, workspace)
        try:
            with self._open_place(write) as place:
                undone = self._carry_out(self._preview(write, place), place)
        except CallError as error:
            self._note(_entry(write, by, status="failed", code=error.code, reasons=(error.message,)))
            raise
        self._note(_entry(write, by, status="success", reasons=(f"undone by {undone.id}",)))
        return undone

    def _find(self, write_id: str, workspace: str | None) -> Write:
        found = self._writes.find(write_id, workspace) if write_id else []
        if not found:
            raise UserError(
                f"no write that is kept begins with {write_id!r}: only what write_file changed is, for a while",
                code="write_unknown",
            )
        if len(found) > 1:
            raise UserError(f"several writes begin with {write_id!r}: give more of it", code="ambiguous")
        return found[0]

    def _preview(self, write: Write, place: Place) -> Preview:
        if write.existed and write.before is None:
            raise Unavailable(f"what {show(write.path)} held was too large to be kept", code="not_kept")
        old = self._read_kept(write)
        now = _read(place.root, write)
        self._check_unchanged(write, now)
        return Preview(write=write, action=_action(write), change=compare(now or b"", old, write.path))

    def _read_kept(self, write: Write) -> bytes:
        if write.before is None:
            return b""
        content = self._writes.content(write.before)
        if content is None:
            raise Unavailable(f"what {show(write.path)} held is no longer kept", code="not_kept")
        return content

    def _check_unchanged(self, write: Write, now: bytes | None) -> None:
        found = _hash(now)
        if found == write.before and (now is not None) == write.existed:
            raise StaleContent(
                f"{show(write.path)} is as it was before: there is nothing to undo", code="nothing_to_undo"
            )
        if found != write.after:
            later = self._writes.later(write)
            remedy = f"; it was written again: undo {later} first" if later is not None else ""
            what = "is gone" if now is None else "has changed since"
            raise StaleContent(f"{show(write.path)} {what}, and is left as it is{remedy}", code="changed_since")

    def _carry_out(self, preview: Preview, place: Place) -> Undone:
        write = preview.write
        undone = Undone(id=f"undo-{uuid.uuid4().hex[:12]}", preview=preview)
        keeper = self._writes.keeper(write.workspace, write.root, undone.id, undoes=write.id)
        if preview.action is Action.REMOVE:
            _remove(write, place.root, keeper)
        else:
            place.root.write(
                write.path,
                self._read_kept(write),
                parents=Parents.CREATE,
                expected_hash=write.after or "",
                max_bytes=MAX_KEPT_BYTES,
                permissions=write.mode,
                judge=_judge(write, place.workspace),
                keeper=keeper,
            )
        return undone


def _action(write: Write) -> Action:
    if write.after is None:
        return Action.CREATE
    return Action.RESTORE if write.existed else Action.REMOVE


def _remove(write: Write, root: Root, keeper: Keeper | None) -> None:
    """Removes the file, and of the directories made for it those that hold nothing else."""
    assert write.after is not None  # noqa: S101
    root.remove(write.path, expected_hash=write.after, judge=_judge(write, None), keeper=keeper)
    for directory in reversed(write.made):
        if not root.remove_directory(directory):
            break


def _read(root: Root, write: Write) -> bytes | None:
    """What the file holds now; None when there is none. Raises CallError where it may not be looked at."""
    try:
        found = root.read(write.path, MAX_KEPT_BYTES)
    except MissingFile:
        return None
    if found.relative != write.path:
        raise StaleContent(f"{show(write.path)} leads elsewhere now, and is left as it is", code="changed_since")
    return bytes(found.data)


def _judge(write: Write, workspace: config.Workspace | None) -> Judge:
    """As for a write; and the path must lead to where it led then."""
    by_extension = judge_extension(workspace) if workspace is not None else None

    def judge(relative: str) -> Reason | None:
        if relative != write.path:
            return Reason("changed_since", f"{show(write.path)} leads elsewhere now, and is left as it is")
        return by_extension(relative) if by_extension is not None else None

    return judge


def _hash(content: bytes | None) -> str | None:
    return hashlib.sha256(content).hexdigest() if content is not None else None


def _entry(write: Write, by: str, *, status: str, code: str = "", reasons: tuple[str, ...] = ()) -> AuditEntry:
    return AuditEntry(
        time=datetime.now(UTC),
        operation="UNDO",
        status=status,
        workspace=write.workspace,
        tool_id=write.id,
        target=write.path,
        approver=by,
        code=code,
        reasons=reasons,
    )
