"""Where paths lead, in both ways of finding them."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from client_agent.errors import AccessRefused, CallError, MissingFile, SystemRefused, UserError, WrongKind
from client_agent.policy.decision import PathKind
from client_agent.policy.paths import Protection
from client_agent.workspace import openat2
from client_agent.workspace.failures import explain
from client_agent.workspace.root import NotCached, Root
from client_agent.workspace.writing import WriteMode

LIMIT = 1_000_000


def read(root: Root, path: str) -> bytes:
    return root.read(path, LIMIT).data


@pytest.mark.parametrize(
    "path",
    ["a/f.txt", "./a/f.txt", "a//f.txt", "a/./f.txt", "a/b/../f.txt", "a/../a/b/../../a/f.txt", "a/b/c/../../f.txt"],
)
def test_every_spelling_of_a_path_inside_leads_to_the_same_file(root: Root, ws: Path, path: str) -> None:
    (ws / "a/b/c").mkdir(parents=True)
    (ws / "a/f.txt").write_text("found")
    file = root.read(path, LIMIT)
    assert (file.data, file.relative) == (b"found", "a/f.txt")
    assert root.inspect(path).relative == "a/f.txt"


def test_an_absolute_path_inside_is_taken_in_either_spelling_of_the_root(base: Path, ws: Path, way: str) -> None:
    (ws / "f.txt").write_text("found")
    (base / "alias").symlink_to(ws)
    root = Root(base / "alias", Protection())
    for path in (ws / "f.txt", base / "alias" / "f.txt", f"{base}//ws/./f.txt"):
        assert read(root, str(path)) == b"found"
    assert root.inspect(str(ws)).relative == "."
    root.close()


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../",
        "../outside/secret.txt",
        "../ws/f.txt",
        "a/../../outside/secret.txt",
        "missing/../../outside/secret.txt",
        "/etc/passwd",
        "/",
        "//etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/f.txt",
        "/dev/zero",
        "/dev/fd/0",
    ],
)
def test_a_path_that_leaves_by_its_text_is_refused(root: Root, ws: Path, path: str) -> None:
    (ws / "a").mkdir()
    (ws / "f.txt").write_text("inside")
    with pytest.raises(AccessRefused) as caught:
        read(root, path)
    assert caught.value.code == "path_outside"
    refusal = root.inspect(path).refusal
    assert refusal is not None
    assert refusal.code == "path_outside"


@pytest.mark.parametrize("tail", ["/../ws/f.txt", "/../outside/secret.txt", "x/f.txt"])
def test_an_absolute_path_that_only_begins_like_the_root_is_refused(root: Root, ws: Path, tail: str) -> None:
    (ws / "f.txt").write_text("inside")
    with pytest.raises(AccessRefused):
        read(root, f"{ws}{tail}")


def test_links_that_stay_inside_work(root: Root, ws: Path) -> None:
    (ws / "a/b").mkdir(parents=True)
    (ws / "a/f.txt").write_text("found")
    (ws / "relative").symlink_to("a/f.txt")
    (ws / "a/b/up").symlink_to("../f.txt")
    (ws / "absolute").symlink_to(ws / "a/f.txt")
    (ws / "directory").symlink_to("a")
    (ws / "chain").symlink_to("relative")
    (ws / "a/b/far").symlink_to(ws / "directory")
    for path in ("relative", "a/b/up", "absolute", "directory/f.txt", "chain", "a/b/far/f.txt", "a/b/far/b/up"):
        assert root.read(path, LIMIT).relative == "a/f.txt", path
    assert root.inspect("directory/b/../..").relative == "."


def test_links_that_leave_are_refused(root: Root, ws: Path, outside: Path) -> None:
    (ws / "x/y").mkdir(parents=True)
    (ws / "file").symlink_to(outside / "secret.txt")
    (ws / "directory").symlink_to(outside)
    (ws / "x/y/relative").symlink_to("../../../outside")
    (ws / "b").symlink_to("directory")
    (ws / "chain").symlink_to("b")
    (ws / "round").symlink_to("../ws/x")
    (ws / "prefix").symlink_to(f"{ws}-other")
    (ws / "slash").symlink_to("/")
    for path in (
        "file",
        "directory",
        "directory/secret.txt",
        "x/y/relative/secret.txt",
        "chain/secret.txt",
        "round",
        "prefix",
        "slash/etc/passwd",
        "directory/../ws/x",
    ):
        facts = root.inspect(path)
        assert facts.refusal is not None, path
        assert (facts.refusal.code, facts.relative) == ("path_outside", None), path
        assert str(outside) not in facts.refusal.text
        for attempt in (lambda p: root.read(p, LIMIT), lambda p: root.write(p, b"x", max_bytes=9)):
            with pytest.raises(AccessRefused):
                attempt(path)


def test_a_path_into_proc_gains_nothing_from_its_magic_links(root: Root, ws: Path, outside: Path) -> None:
    fd = os.open(outside, os.O_RDONLY)
    try:
        (ws / "magic").symlink_to(f"/proc/self/fd/{fd}/secret.txt")
        (ws / "cwd").symlink_to("/proc/self/cwd")
        for path in ("magic", "cwd", f"/proc/self/fd/{fd}/secret.txt", f"/dev/fd/{fd}/secret.txt"):
            with pytest.raises(AccessRefused):
                read(root, path)
    finally:
        os.close(fd)


def test_a_loop_of_links_ends_with_an_error(root: Root, ws: Path) -> None:
    (ws / "p").symlink_to("q")
    (ws / "q").symlink_to("p")
    (ws / "self").symlink_to("self/x")
    for path in ("p", "p/x", "self"):
        with pytest.raises(WrongKind) as caught:
            read(root, path)
        assert caught.value.code == "path_loop"


def test_forty_links_are_followed_and_not_one_more(root: Root, ws: Path) -> None:
    (ws / "l0").write_text("end")
    for index in range(1, 42):
        (ws / f"l{index}").symlink_to(ws / f"l{index - 1}")
    assert read(root, "l40") == b"end"
    with pytest.raises(WrongKind):
        read(root, "l41")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", "path_empty"),
        ("a\0b", "path_control_character"),
        ("a\nb", "path_control_character"),
        ("x" * 256, "path_too_long"),
        ("x/" * 2100, "path_too_long"),
        ("..\\..\\etc", "path_disguised"),
        ("．．／etc", "path_disguised"),
        ("\ud800", "path_not_text"),
    ],
)
def test_odd_spellings_are_refused_before_the_file_system_is_asked(root: Root, path: str, code: str) -> None:
    with pytest.raises(AccessRefused) as caught:
        read(root, path)
    assert caught.value.code == code
    refusal = root.inspect(path).refusal
    assert refusal is not None
    assert refusal.code == code


def test_protected_names_are_refused_whatever_the_spelling(root: Root, ws: Path) -> None:
    (ws / "private").mkdir()
    (ws / "private/x.txt").write_text("mine")
    (ws / ".env").write_text("TOKEN=1")
    (ws / "notes.txt").symlink_to(".env")
    (ws / "deeper").symlink_to("private")
    (ws / "real.txt").write_text("behind a protected name")
    (ws / "server.key").symlink_to("real.txt")
    for path in (
        ".env",
        "./.env",
        ".ENV",
        "private/../.env",
        str(ws / ".env"),
        "notes.txt",
        "deeper/x.txt",
        "server.key",
        "new/.env",
    ):
        facts = root.inspect(path)
        assert facts.refusal is not None, path
        assert facts.refusal.code == "path_protected", path
        with pytest.raises(AccessRefused):
            read(root, path)
        with pytest.raises(AccessRefused):
            root.write(path, b"x", max_bytes=9)
    assert (ws / ".env").read_text() == "TOKEN=1"
    assert read(root, "real.txt") == b"behind a protected name"


def test_only_regular_files_are_read_and_nothing_blocks(root: Root, ws: Path) -> None:
    os.mkfifo(ws / "fifo")
    (ws / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(ws / "socket"))
        for path, code in (
            ("fifo", "special_file"),
            ("socket", "special_file"),
            ("directory", "is_directory"),
            (".", "is_directory"),
        ):
            with pytest.raises(WrongKind) as caught:
                read(root, path)
            assert caught.value.code == code
            with pytest.raises(WrongKind):
                root.write(path, b"x", mode=WriteMode.APPEND, max_bytes=9)
        assert root.inspect("fifo").kind is root.inspect("socket").kind is PathKind.SPECIAL


def test_looking_at_a_fifo_wakes_no_writer(root: Root, ws: Path) -> None:
    os.mkfifo(ws / "fifo")
    with pytest.raises(WrongKind):
        read(root, "fifo")
    root.inspect("fifo")
    with pytest.raises(OSError, match="No such device") as caught:  # still no reader at the other end
        os.open(ws / "fifo", os.O_WRONLY | os.O_NONBLOCK)
    assert caught.value.errno == errno.ENXIO


def test_a_file_is_not_a_directory(root: Root, ws: Path) -> None:
    (ws / "f.txt").write_text("x")
    for path in ("f.txt/", "f.txt/.", "f.txt/x", "f.txt/../f.txt"):
        with pytest.raises(WrongKind) as caught:
            read(root, path)
        assert caught.value.code == "not_a_directory"


def test_inspection_tells_what_is_there(root: Root, ws: Path) -> None:
    (ws / "run.sh").write_text("#!/bin/sh")
    (ws / "run.sh").chmod(0o755)
    (ws / "d").mkdir()
    (ws / "dangling").symlink_to("d/not-yet.txt")
    facts = root.inspect("run.sh")
    assert (facts.kind, facts.executable, facts.refusal) == (PathKind.FILE, True, None)
    assert root.inspect("d").kind is PathKind.DIRECTORY
    assert not root.inspect("d").executable
    for path, relative in (("new.txt", "new.txt"), ("d/x/y", "d/x/y"), ("dangling", "d/not-yet.txt")):
        facts = root.inspect(path)
        assert (facts.kind, facts.relative, facts.refusal) == (PathKind.MISSING, relative, None)


def test_a_missing_file_is_said_to_be_missing(root: Root, ws: Path) -> None:
    for path in ("nope", "nope/deeper", "nope/../f.txt"):
        with pytest.raises(MissingFile) as caught:
            read(root, path)
        assert caught.value.details["path"] == path


def test_a_name_that_looks_deleted_is_an_ordinary_name(root: Root, ws: Path) -> None:
    (ws / "f (deleted)").write_text("still here")
    assert root.read("f (deleted)", LIMIT).relative == "f (deleted)"


def test_a_protected_file_stays_protected_when_it_is_deleted_meanwhile(
    ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ws / ".env").write_text("TOKEN=1")
    (ws / "notes.txt").symlink_to(".env")
    root = Root(ws, Protection())
    ask = os.readlink

    def delete_then_ask(path: str, **how: int) -> str:
        (ws / ".env").unlink(missing_ok=True)
        return ask(path, **how)

    monkeypatch.setattr(os, "readlink", delete_then_ask)
    with pytest.raises(AccessRefused):
        read(root, "notes.txt")
    root.close()


def test_names_in_any_script_work(root: Root, ws: Path) -> None:
    for name in (
        "файл.txt",
        "文件.txt",
        "ファイル.txt",
        "ünï côdé.txt",
        "emoji-🙂.txt",
        "per%2e%2ecent",
        "~",
        "$HOME",
        "a b",
        "-rf",
    ):
        (ws / name).write_text(name)
        assert read(root, name).decode() == name


def test_a_root_that_was_moved_gives_a_clear_error(root: Root, base: Path, ws: Path) -> None:
    (ws / "f.txt").write_text("x")
    ws.rename(base / "elsewhere")
    for replace in (False, True):
        if replace:
            ws.mkdir()
            (ws / "f.txt").write_text("another root")
        for attempt in (
            lambda: read(root, "f.txt"),
            lambda: root.write("n.txt", b"x", max_bytes=9),
            lambda: root.list(".", max_entries=9),
        ):
            with pytest.raises(SystemRefused) as caught:
                attempt()
            assert caught.value.code == "root_moved"


def test_a_root_that_cannot_be_opened_is_the_users_to_put_right(base: Path) -> None:
    with pytest.raises(UserError, match="cannot be opened"):
        Root(base / "nowhere", Protection())
    with pytest.raises(UserError):
        Root(base / "outside" / "secret.txt", Protection())


def test_no_permission_is_a_clear_error(root: Root, ws: Path, ordinary_user) -> None:
    (ws / "n.txt").write_text("x")
    (ws / "shut").mkdir()
    (ws / "shut/f.txt").write_text("x")
    (ws / "n.txt").chmod(0)
    (ws / "shut").chmod(0)
    with ordinary_user():
        for path in ("n.txt", "shut/f.txt"):
            with pytest.raises(SystemRefused) as caught:
                read(root, path)
            assert caught.value.code == "permission_denied"
        refusal = root.inspect("shut/f.txt").refusal
        assert refusal is not None
        assert refusal.code == "permission_denied"


def test_a_directory_that_may_be_searched_but_not_read_can_be_gone_through(root: Root, ws: Path, ordinary_user) -> None:
    (ws / "dim").mkdir()
    (ws / "dim/f.txt").write_text("known by name")
    (ws / "dim").chmod(0o311)
    with ordinary_user():
        assert read(root, "dim/f.txt") == b"known by name"
        root.write("dim/g.txt", b"too", max_bytes=9)
        with pytest.raises(SystemRefused):
            root.list("dim", max_entries=9)


def test_no_descriptor_is_left_open(root: Root, ws: Path, outside: Path) -> None:
    (ws / "d/e").mkdir(parents=True)
    (ws / "d/f.txt").write_text("x")
    (ws / "out").symlink_to(outside)
    (ws / "in").symlink_to(ws / "d")
    os.mkfifo(ws / "fifo")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("d/f.txt", "in/e/../f.txt", "out/x", "fifo", "nope/x", "d", "d/f.txt/x", ".env"):
        root.inspect(path)
        for attempt in (
            lambda p: root.read(p, 9),
            lambda p: root.write(p, b"long", max_bytes=9, expected_hash="0" * 64),
            lambda p: root.list(p, max_entries=9),
            lambda p: root.read_cached(p, 9),
        ):
            with suppress(CallError, NotCached):
                attempt(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_in_memory_is_inspected_at_once_and_the_rest_is_not_waited_for(ws: Path) -> None:
    (ws / "f.txt").write_text("x")
    (ws / "out").symlink_to("/etc")
    root = Root(ws, Protection())
    assert root.inspect_cached("f.txt").kind is PathKind.FILE
    refusal = root.inspect_cached("../x\0").refusal
    assert refusal is not None
    for path in ("nope.txt", "out/passwd", "../outside"):  # only a walk can say, and a walk may wait
        with pytest.raises(NotCached):
            root.inspect_cached(path)
    root.close()


def test_without_the_system_call_nothing_is_answered_at_once(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openat2, "_NUMBER", 100_000)
    (ws / "f.txt").write_text("x")
    root = Root(ws, Protection())
    with pytest.raises(NotCached):
        root.inspect_cached("f.txt")
    with pytest.raises(NotCached):
        root.read_cached("f.txt", LIMIT)
    root.close()


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "disk_full"), (errno.EROFS, "read_only"), (errno.EIO, "system_refused")]
)
def test_whatever_the_system_says_becomes_an_error_with_words(number: int, code: str) -> None:
    error = explain(OSError(number, "words", "/some/absolute/path"), "f.txt")
    assert (error.code, error.details["path"]) == (code, "f.txt")
    assert "/some" not in error.message
