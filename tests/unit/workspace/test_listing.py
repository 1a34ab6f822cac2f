"""Listings: what is shown, what is not, and how much of a tree is looked at."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_agent.errors import AccessRefused, InvalidParameters, MissingFile, SystemRefused, WrongKind
from client_agent.policy.decision import PathKind
from client_agent.workspace import listing, posix
from client_agent.workspace.listing import Depth, Listing
from client_agent.workspace.root import Root


def fill(ws: Path, *paths: str) -> None:
    for path in paths:
        (ws / path).parent.mkdir(parents=True, exist_ok=True)
        (ws / path).write_text(path)


def paths(found: Listing) -> list[str]:
    return [entry.path for entry in found.entries]


def list_all(root: Root, path: str = ".", pattern: str = "*", max_entries: int = 1000) -> Listing:
    return root.list(path, depth=Depth.ALL, pattern=pattern, max_entries=max_entries)


def test_one_level_is_listed_in_order_with_what_is_known_of_each(root: Root, ws: Path) -> None:
    fill(ws, "b.txt", "a.txt", "d/inner.txt")
    os.utime(ws / "a.txt", ns=(0, 1_700_000_000_123_456_789))
    found = root.list(".", max_entries=10)
    assert paths(found) == ["a.txt", "b.txt", "d"]
    first, _, last = found.entries
    assert (first.name, first.type, first.size, first.modified_ns) == ("a.txt", "file", 5, 1_700_000_000_123_456_789)
    assert last.type == "directory"
    assert (found.truncated, found.unreadable, found.relative) == (False, 0, ".")


def test_paths_are_relative_to_the_root_and_can_be_read(root: Root, ws: Path) -> None:
    fill(ws, "a/b/c.txt", "a/d.txt")
    (ws / "link").symlink_to("a")
    for path in ("a", "./a/", str(ws / "a"), "link"):
        found = list_all(root, path)
        assert (found.relative, paths(found)) == ("a", ["a/b", "a/b/c.txt", "a/d.txt"])
    assert all(root.read(entry.path, 99) for entry in found.entries if entry.type == "file")


def test_a_tree_is_listed_whole(root: Root, ws: Path) -> None:
    fill(ws, "x/y/z.txt", "x/a.txt", "top.txt", "w/v.txt")
    assert paths(list_all(root)) == ["top.txt", "w", "w/v.txt", "x", "x/a.txt", "x/y", "x/y/z.txt"]
    assert paths(list_all(root, pattern="*.txt")) == ["top.txt", "w/v.txt", "x/a.txt", "x/y/z.txt"]
    assert paths(list_all(root, pattern="x/**/*.txt")) == ["x/a.txt", "x/y/z.txt"]
    assert paths(root.list(".", pattern="x/**/*.txt", max_entries=9)) == []


def test_hidden_names_are_shown_only_when_the_pattern_names_them(root: Root, ws: Path) -> None:
    fill(ws, ".hidden", "seen", ".dir/inside.txt", "d/.deep")
    assert paths(list_all(root)) == ["d", "seen"]
    assert paths(list_all(root, pattern=".*")) == [".dir", ".hidden", "d/.deep"]
    assert paths(list_all(root, pattern=".dir/*")) == [".dir/inside.txt"]
    assert paths(root.list(".dir", max_entries=9)) == [".dir/inside.txt"]


def test_links_are_shown_as_what_they_lead_to_and_never_followed_down(root: Root, ws: Path, outside: Path) -> None:
    fill(ws, "d/f.txt", ".env")
    (ws / "file").symlink_to("d/f.txt")
    (ws / "absolute").symlink_to(ws / "d/f.txt")
    (ws / "directory").symlink_to("d")
    (ws / "d/again").symlink_to("..")
    (ws / "out").symlink_to(outside)
    (ws / "out.txt").symlink_to(outside / "secret.txt")
    (ws / "dangling").symlink_to("nowhere")
    (ws / "loop").symlink_to("loop")
    (ws / "secret").symlink_to(".env")
    types = {entry.path: (entry.type.value, entry.size) for entry in list_all(root).entries}
    assert types["file"] == types["absolute"] == ("file", len("d/f.txt"))
    assert types["directory"][0] == types["d/again"][0] == "directory"
    for name in ("out", "out.txt", "dangling", "loop", "secret"):
        assert types[name] == ("symlink", len(os.readlink(ws / name)))
    assert not any(path.startswith(("directory/", "out/", "d/again/")) for path in types)


def test_special_files_are_listed_and_left_alone(root: Root, ws: Path) -> None:
    os.mkfifo(ws / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(ws / "socket"))
        assert [entry.type for entry in list_all(root).entries] == ["other", "other"]


def test_protected_names_are_shown_and_never_entered(root: Root, ws: Path) -> None:
    fill(ws, "private/x/y.txt", "id_rsa", ".ssh/config", "sub/f.txt")
    assert paths(list_all(root)) == ["id_rsa", "private", "private/x", "sub", "sub/f.txt"]
    assert paths(list_all(root, pattern=".ssh/*")) == []
    for path in ("private/x", ".ssh"):
        with pytest.raises(AccessRefused) as caught:
            root.list(path, max_entries=9)
        assert caught.value.code == "path_protected"


def test_what_cannot_be_listed_is_a_clear_error(root: Root, ws: Path, outside: Path) -> None:
    fill(ws, "f.txt")
    (ws / "out").symlink_to(outside)
    for path, kind in (("f.txt", WrongKind), ("nope", MissingFile), ("out", AccessRefused), ("..", AccessRefused)):
        with pytest.raises(kind):
            root.list(path, max_entries=9)
    with pytest.raises(InvalidParameters):
        root.list(".", pattern="../*", max_entries=9)


def test_directories_that_may_not_be_read_are_counted(root: Root, ws: Path, ordinary_user) -> None:
    fill(ws, "open/f.txt", "shut/f.txt", "dim/f.txt")
    (ws / "shut").chmod(0)
    (ws / "dim").chmod(0o444)
    with ordinary_user():
        found = list_all(root)
        assert paths(found) == ["dim", "open", "open/f.txt", "shut"]
        assert found.unreadable == 2
        with pytest.raises(SystemRefused):
            root.list("shut", max_entries=9)


class Counter:
    """Counts what is taken from the file system."""

    def __init__(self) -> None:
        self.entries = 0
        self.directories = 0

    def scan(self, fd: int) -> Counter:
        self.directories += 1
        self._inner = SCAN(fd)
        return self

    def __enter__(self) -> Iterator[os.DirEntry[str]]:
        return self._count(self._inner)

    def _count(self, inner: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        for entry in inner:
            self.entries += 1
            yield entry

    def __exit__(self, *_: object) -> None:
        self._inner.close()


SCAN = os.scandir


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    counter = Counter()
    monkeypatch.setattr(posix.os, "scandir", counter.scan)
    return counter


def test_a_listing_stops_as_soon_as_it_has_enough(root: Root, ws: Path, counter: Counter) -> None:
    for number in range(300):
        (ws / f"f{number}").touch()
    found = root.list(".", max_entries=10)
    assert (len(found.entries), found.truncated, counter.entries) == (10, True, 11)
    assert paths(found) == sorted(paths(found))


def test_a_tree_is_not_walked_further_than_needed(root: Root, ws: Path, counter: Counter) -> None:
    fill(ws, *(f"d{number}/f{inner}" for number in range(30) for inner in range(10)))
    found = list_all(root, max_entries=50)
    assert (len(found.entries), found.truncated) == (50, True)
    assert counter.entries == 51
    assert counter.directories <= 4


def test_exactly_as_many_as_allowed_is_not_truncated(root: Root, ws: Path) -> None:
    fill(ws, *(f"f{number}" for number in range(10)))
    assert not root.list(".", max_entries=10).truncated
    assert root.list(".", max_entries=9).truncated


def test_a_directory_that_cannot_match_is_not_opened(root: Root, ws: Path, counter: Counter) -> None:
    fill(ws, "src/a.py", "node_modules/x/y.py", ".git/objects/z.py")
    assert paths(list_all(root, pattern="src/*.py")) == ["src/a.py"]
    assert counter.directories == 2


def test_what_vanishes_meanwhile_is_left_out(root: Root, ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(ws, "a/gone.txt", "b/f.txt", "c/f.txt", "d.txt")
    enter = root.enter

    def enter_later(relative: str) -> posix.Directory:
        if relative == "a":
            shutil.rmtree(ws / "a")
        elif relative == "c":
            shutil.rmtree(ws / "c")
            (ws / "c").symlink_to("b")
        return enter(relative)

    monkeypatch.setattr(root, "enter", enter_later)
    found = list_all(root)
    assert [path for path in paths(found) if path.endswith(".txt")] == ["b/f.txt", "d.txt"]
    assert found.unreadable == 0


def test_an_entry_that_vanishes_before_it_is_looked_at_is_left_out(
    root: Root, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ws, "a.txt", "b.txt")
    take = listing._Survey._take

    def take_late(survey: object, entries: Iterator[os.DirEntry[str]], *rest: object) -> None:
        names = list(entries)
        (ws / "a.txt").unlink()
        take(survey, iter(names), *rest)

    monkeypatch.setattr(listing._Survey, "_take", take_late)
    found = root.list(".", max_entries=9)
    assert (paths(found), found.unreadable) == (["b.txt"], 0)


def make_deep(ws: Path, depth: int) -> None:
    fd = os.open(ws, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


def remove_deep(ws: Path, depth: int) -> None:
    fd = os.open("/".join([str(ws), *["d"] * min(depth, 1000)]), os.O_RDONLY)
    for _ in range(depth - 1000):
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    for _ in range(depth):
        outer = os.open("..", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        os.rmdir("d", dir_fd=outer)
        fd = outer
    os.close(fd)


def test_a_very_deep_tree_ends_cleanly(root: Root, ws: Path) -> None:
    """Deeper than the longest path the system takes, and than the descriptors a process has."""
    make_deep(ws, 2200)
    try:
        found = list_all(root, max_entries=10_000)
        assert (len(found.entries), found.unreadable) == (listing.MAX_LEVELS + 1, 1)
        assert root.inspect("d/" * 1500 + "f.txt").kind is PathKind.MISSING
        with pytest.raises(AccessRefused):
            root.read("d/" * 2200 + "f.txt", 9)
        assert root.write("d/" * 1500 + "f.txt", b"x", max_bytes=9).created
        assert root.read("d/" * 1500 + "f.txt", 9).data == b"x"
        assert paths(root.list("d/" * 1500, pattern="*.txt", max_entries=9)) == ["d/" * 1500 + "f.txt"]
        os.unlink(ws / ("d/" * 1500 + "f.txt"))
    finally:
        remove_deep(ws, 2200)


def test_names_that_are_not_text_are_made_visible(root: Root, ws: Path) -> None:
    os.mkdir(os.fsencode(ws) + b"/d\xff")
    with open(os.fsencode(ws) + b"/d\xff/\xc3(.txt", "wb"):
        pass
    fill(ws, "ü.txt")
    found = list_all(root)
    assert paths(found) == ["d\\xff", "d\\xff/\\xc3(.txt", "ü.txt"]
    for entry in found.entries:
        assert (entry.path + entry.name).encode()
