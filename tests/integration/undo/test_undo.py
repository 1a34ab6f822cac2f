"""Taking writes back, and taking that back."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from client_agent.errors import ClientAgentError
from client_agent.undo import Action
from client_agent.workspace import removing
from client_agent.workspace.writing import WriteMode
from tests.integration.undo.conftest import Desk, MakeDesk


def refused(desk: Desk, write_id: str) -> str:
    with pytest.raises(ClientAgentError) as error:
        desk.apply(write_id)
    return error.value.code


def test_a_replaced_file_gets_its_content_back_and_that_can_be_undone(desk: Desk) -> None:
    (desk.ws / "a.md").write_bytes(b"one\n")
    (desk.ws / "a.md").chmod(0o640)
    desk.write("t1", "a.md", b"two\n")
    preview = desk.undo.preview("t1")
    assert (preview.action, "-two" in preview.change, "+one" in preview.change) == (Action.RESTORE, True, True)
    undo = desk.apply("t1")
    assert desk.read("a.md") == b"one\n"
    assert stat.S_IMODE((desk.ws / "a.md").stat().st_mode) == 0o640
    redo = desk.apply(undo)
    assert desk.read("a.md") == b"two\n"
    desk.apply(redo)
    assert desk.read("a.md") == b"one\n"


def test_what_was_appended_is_taken_off(desk: Desk) -> None:
    (desk.ws / "log.txt").write_bytes(b"old\n")
    desk.write("t1", "log.txt", b"new\n", mode=WriteMode.APPEND)
    assert desk.read("log.txt") == b"old\nnew\n"
    desk.apply("t1")
    assert desk.read("log.txt") == b"old\n"


def test_a_file_that_was_made_is_removed_with_the_directories_made_for_it(desk: Desk) -> None:
    (desk.ws / "there").mkdir()
    desk.write("t1", "there/new/deep/a.md", b"x")
    preview = desk.undo.preview("t1")
    assert (preview.action, preview.write.made) == (Action.REMOVE, ("there/new", "there/new/deep"))
    undo = desk.apply("t1")
    assert os.listdir(desk.ws / "there") == []
    assert desk.undo.preview(undo).action is Action.CREATE
    desk.apply(undo)
    assert desk.read("there/new/deep/a.md") == b"x"


def test_a_directory_with_something_else_in_it_stays(desk: Desk) -> None:
    desk.write("t1", "new/deep/a.md", b"x")
    (desk.ws / "new" / "mine.txt").write_text("mine")
    desk.apply("t1")
    assert os.listdir(desk.ws / "new") == ["mine.txt"]


def test_a_file_that_comes_back_has_its_permissions(desk: Desk) -> None:
    desk.write("t1", "a.md", b"x")
    (desk.ws / "a.md").chmod(0o750)
    undo = desk.apply("t1")
    desk.apply(undo)
    assert stat.S_IMODE((desk.ws / "a.md").stat().st_mode) == 0o750


def test_a_file_that_changed_since_is_left_alone(desk: Desk) -> None:
    (desk.ws / "a.md").write_bytes(b"one")
    desk.write("t1", "a.md", b"two")
    desk.write("t2", "b.md", b"two")
    for name in ("a.md", "b.md"):
        (desk.ws / name).write_bytes(b"mine")
    assert (refused(desk, "t1"), refused(desk, "t2")) == ("changed_since", "changed_since")
    assert (desk.read("a.md"), desk.read("b.md")) == (b"mine", b"mine")
    (desk.ws / "a.md").unlink()
    assert refused(desk, "t1") == "changed_since"
    assert not (desk.ws / "a.md").exists()


def test_of_two_writes_the_later_one_must_be_undone_first_and_is_named(desk: Desk) -> None:
    (desk.ws / "a.md").write_bytes(b"one")
    desk.write("t1", "a.md", b"two")
    desk.write("t2", "a.md", b"three")
    with pytest.raises(ClientAgentError, match="undo t2 first"):
        desk.apply("t1")
    desk.apply("t2")
    desk.apply("t1")
    assert desk.read("a.md") == b"one"


def test_what_is_already_as_before_says_so(desk: Desk) -> None:
    (desk.ws / "a.md").write_bytes(b"one")
    desk.write("t1", "a.md", b"two")
    desk.write("t2", "b.md", b"x")
    desk.apply("t1")
    (desk.ws / "b.md").unlink()
    assert (refused(desk, "t1"), refused(desk, "t2")) == ("nothing_to_undo", "nothing_to_undo")


def test_what_is_protected_by_now_stays_as_it_is(desk: Desk) -> None:
    keeper = desk.writes.keeper("w", desk.root.real_path, "t1")
    assert keeper is not None
    (desk.ws / "private").mkdir()
    (desk.ws / "private" / "a.md").write_bytes(b"two")
    with (desk.ws / "private" / "a.md").open("rb") as old:
        keeper.keep("private/a.md", old.fileno(), after="0" * 64, mode=0o600, made=())
    with pytest.raises(ClientAgentError) as error:
        desk.undo.preview("t1")
    assert error.value.code == "path_protected"


def test_a_path_that_leads_elsewhere_by_now_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    (desk.ws / "a.md").write_bytes(b"one")
    desk.write("t1", "a.md", b"two")
    (desk.ws / "other.md").write_bytes(b"two")
    (desk.ws / "a.md").unlink()
    (desk.ws / "a.md").symlink_to("other.md")
    assert refused(desk, "t1") == "changed_since"
    assert desk.read("other.md") == b"two"
    outside = tmp_path / "outside.md"
    outside.write_bytes(b"two")
    (desk.ws / "a.md").unlink()
    (desk.ws / "a.md").symlink_to(outside)
    assert refused(desk, "t1") == "path_outside"
    assert outside.read_bytes() == b"two"


def test_what_is_swapped_in_while_a_file_is_removed_is_put_back(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("t1", "a.md", b"x")
    whole = removing._take_away

    def swapping(*args: object) -> None:
        (desk.ws / "a.md").write_bytes(b"mine")
        whole(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(removing, "_take_away", swapping)
    assert refused(desk, "t1") == "stale_content"
    assert os.listdir(desk.ws) == ["a.md"]
    assert desk.read("a.md") == b"mine"
    assert [write.id for write in desk.undo.recent()] == ["t1"]


def test_a_binary_file_is_put_back_without_a_diff(desk: Desk) -> None:
    (desk.ws / "a.txt").write_bytes(b"\x00\xff" * 100)
    desk.write("t1", "a.txt", b"text")
    assert "binary" in desk.undo.preview("t1").change
    desk.apply("t1")
    assert desk.read("a.txt") == b"\x00\xff" * 100


def test_ids_may_be_shortened_and_must_be_clear(desk: Desk) -> None:
    desk.write("call-1", "a.md", b"x")
    desk.write("call-2", "b.md", b"x")
    assert refused(desk, "call") == "ambiguous"
    assert refused(desk, "none") == "write_unknown"
    assert refused(desk, "") == "write_unknown"
    desk.write("call", "c.md", b"x")
    desk.apply("call")
    assert not (desk.ws / "c.md").exists()


def test_the_list_says_what_was_undone_and_what_that_was_undone_by(desk: Desk) -> None:
    desk.write("t1", "a.md", b"x")
    undo = desk.apply("t1")
    redo = desk.apply(undo)
    listed = {write.id: write.undone_by for write in desk.undo.recent()}
    assert listed == {redo: None, undo: redo, "t1": None}
    last = desk.apply(redo)
    assert {write.id: write.undone_by for write in desk.undo.recent()}["t1"] == undo
    assert [write.id for write in desk.undo.recent()] == [last, redo, undo, "t1"]


def test_every_undo_and_every_refused_one_is_noted(desk: Desk) -> None:
    desk.write("t1", "a.md", b"x")
    undo = desk.apply("t1")
    refused(desk, "t1")
    done, again = desk.noted
    assert (done.operation, done.status, done.tool_id, done.target, done.approver) == (
        "UNDO", "success", "t1", "a.md", "test",
    )  # fmt: skip
    assert done.reasons == (f"undone by {undo}",)
    assert (again.status, again.code) == ("failed", "nothing_to_undo")


def test_a_workspace_that_was_moved_is_not_written_to(make_desk: MakeDesk, tmp_path: Path) -> None:
    desk = make_desk()
    desk.write("t1", "a.md", b"x")
    (tmp_path / "ws").rename(tmp_path / "elsewhere")
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.md").write_bytes(b"x")
    (tmp_path / "ws").symlink_to("real")
    assert refused(desk, "t1") == "root_moved"
    assert (tmp_path / "real" / "a.md").exists()
