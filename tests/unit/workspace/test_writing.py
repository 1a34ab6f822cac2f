"""Writing: in one step, and never on what was not meant."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from client_agent.errors import AccessRefused, CallError, MissingFile, StaleContent, SystemRefused, TooLarge, WrongKind
from client_agent.policy.decision import Reason
from client_agent.policy.paths import Protection
from client_agent.workspace import posix
from client_agent.workspace.root import Root
from client_agent.workspace.writing import Parents, WriteMode

LIMIT = 1_000_000


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write(root: Root, path: str, data: bytes = b"new", **how) -> None:
    root.write(path, data, **{"max_bytes": LIMIT, **how})


@pytest.fixture(params=["unnamed", "named"])
def draft(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With files that have no name until they are complete, and as on a file system without such."""
    if request.param == "named":
        monkeypatch.setattr(posix, "_UNNAMED", 0)


@pytest.fixture(params=["exchange", "no exchange"])
def swap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no exchange":
        monkeypatch.setattr(posix.Directory, "exchange", lambda *_: False)


def test_a_new_file_is_written(root: Root, ws: Path, draft: None) -> None:
    written = root.write("f.txt", b"new", max_bytes=LIMIT)
    assert (ws / "f.txt").read_bytes() == b"new"
    assert (written.relative, written.size, written.hash, written.created) == ("f.txt", 3, sha256(b"new"), True)
    assert written.modified_ns == (ws / "f.txt").stat().st_mtime_ns
    assert os.listdir(ws) == ["f.txt"]


def test_a_file_is_replaced_and_extended(root: Root, ws: Path, draft: None, swap: None) -> None:
    (ws / "f.txt").write_bytes(b"something old")
    assert not root.write("f.txt", b"one", max_bytes=LIMIT).created
    assert (ws / "f.txt").read_bytes() == b"one"
    written = root.write("f.txt", b"+two", mode=WriteMode.APPEND, max_bytes=LIMIT)
    assert (ws / "f.txt").read_bytes() == b"one+two"
    assert (written.size, written.hash) == (7, sha256(b"one+two"))
    write(root, "g.txt", b"appended to nothing", mode=WriteMode.APPEND)
    assert sorted(os.listdir(ws)) == ["f.txt", "g.txt"]


def test_a_new_file_has_the_mode_the_umask_leaves(root: Root, ws: Path, draft: None) -> None:
    before = os.umask(0o027)
    try:
        write(root, "f.txt")
    finally:
        os.umask(before)
    assert stat.S_IMODE((ws / "f.txt").stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o777, 0o200])
def test_the_mode_of_the_old_file_is_kept(root: Root, ws: Path, draft: None, mode: int) -> None:
    (ws / "f.txt").write_bytes(b"old")
    (ws / "f.txt").chmod(mode)
    write(root, "f.txt")
    assert stat.S_IMODE((ws / "f.txt").stat().st_mode) == mode


def test_a_set_user_id_bit_is_dropped(root: Root, ws: Path) -> None:
    (ws / "f.txt").write_bytes(b"old")
    (ws / "f.txt").chmod(0o4755)
    write(root, "f.txt")
    assert stat.S_IMODE((ws / "f.txt").stat().st_mode) == 0o755


def test_the_owner_is_kept_where_that_is_allowed_and_else_the_group_gains_nothing(
    root: Root, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ws / "f.txt").write_bytes(b"old")
    (ws / "f.txt").chmod(0o664)
    asked: list[tuple[int, int]] = []

    def refuse(_fd: int, uid: int, gid: int) -> None:
        asked.append((uid, gid))
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(posix.os, "geteuid", lambda: 4_000_000)  # someone else than the owner
    monkeypatch.setattr(posix.os, "fchown", refuse)
    status = (ws / "f.txt").stat()
    write(root, "f.txt")
    assert asked == [(status.st_uid, status.st_gid), (-1, status.st_gid)]
    assert stat.S_IMODE((ws / "f.txt").stat().st_mode) == 0o604


def test_through_a_link_the_target_is_replaced_and_the_link_stays(root: Root, ws: Path) -> None:
    (ws / "d").mkdir()
    (ws / "d/real.txt").write_bytes(b"old")
    (ws / "link").symlink_to("d/real.txt")
    (ws / "absolute").symlink_to(ws / "d/real.txt")
    (ws / "dangling").symlink_to("d/new.txt")
    for name in ("link", "absolute"):
        assert root.write(name, name.encode(), max_bytes=LIMIT).relative == "d/real.txt"
        assert (ws / "d/real.txt").read_bytes() == name.encode()
        assert (ws / name).is_symlink()
    write(root, "dangling")
    assert (ws / "d/new.txt").read_bytes() == b"new"


def test_a_hard_link_elsewhere_keeps_the_old_content(root: Root, ws: Path, outside: Path) -> None:
    os.link(outside / "secret.txt", ws / "f.txt")
    write(root, "f.txt", mode=WriteMode.APPEND)
    assert (outside / "secret.txt").read_text() == "what lies outside"


def test_missing_parents_are_made_only_when_asked_for(root: Root, ws: Path, outside: Path) -> None:
    with pytest.raises(MissingFile) as caught:
        write(root, "a/b/f.txt")
    assert caught.value.code == "parent_missing"
    assert os.listdir(ws) == []
    write(root, "a/b/f.txt", parents=Parents.CREATE)
    assert (ws / "a/b/f.txt").read_bytes() == b"new"
    (ws / "out").symlink_to(outside)
    for path in ("out/x/f.txt", "a/../../outside/x/f.txt", "x/../../outside/f.txt"):
        with pytest.raises(AccessRefused):
            write(root, path, parents=Parents.CREATE)
    assert os.listdir(outside) == ["secret.txt"]
    with pytest.raises(MissingFile):
        write(root, "x/../f.txt", parents=Parents.CREATE)


@pytest.mark.parametrize("path", ["d", ".", "d/", "new/", "new/.", "d/new/"])
def test_a_directory_is_not_written(root: Root, ws: Path, path: str) -> None:
    (ws / "d").mkdir()
    with pytest.raises(WrongKind):
        write(root, path, parents=Parents.CREATE)


def test_the_limit_holds_for_the_whole_file(root: Root, ws: Path) -> None:
    with pytest.raises(TooLarge):
        write(root, "f.txt", b"x" * 11, max_bytes=10)
    write(root, "f.txt", b"x" * 10, max_bytes=10)
    with pytest.raises(TooLarge):
        write(root, "f.txt", b"x", mode=WriteMode.APPEND, max_bytes=10)
    (ws / "big.txt").write_bytes(b"x" * 100)
    with pytest.raises(TooLarge):
        write(root, "big.txt", b"", mode=WriteMode.APPEND, max_bytes=10)
    write(root, "big.txt", b"small", max_bytes=10)


def test_what_was_read_is_what_may_be_replaced(root: Root, ws: Path, draft: None, swap: None) -> None:
    (ws / "f.txt").write_bytes(b"old")
    with pytest.raises(StaleContent):
        write(root, "f.txt", expected_hash=sha256(b"older"))
    with pytest.raises(StaleContent):
        write(root, "f.txt", expected_hash="")
    with pytest.raises(StaleContent):
        write(root, "new.txt", expected_hash=sha256(b"old"))
    assert (ws / "f.txt").read_bytes() == b"old"
    write(root, "f.txt", expected_hash=sha256(b"old").upper())
    write(root, "new.txt", expected_hash="")
    assert sorted(os.listdir(ws)) == ["f.txt", "new.txt"]
    assert (ws / "f.txt").read_bytes() == (ws / "new.txt").read_bytes() == b"new"


@pytest.mark.usefixtures("draft", "swap")
@pytest.mark.parametrize("how", [{"expected_hash": sha256(b"old")}, {"mode": WriteMode.APPEND}])
def test_a_change_in_the_last_moment_is_not_overwritten(
    root: Root, ws: Path, how: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ws / "f.txt").write_bytes(b"old")
    sync = os.fsync

    def change_then_sync(fd: int) -> None:
        (ws / "other.txt").write_bytes(b"saved by an editor")
        (ws / "other.txt").rename(ws / "f.txt")
        sync(fd)

    monkeypatch.setattr(os, "fsync", change_then_sync)
    with pytest.raises(StaleContent):
        write(root, "f.txt", **how)
    assert (ws / "f.txt").read_bytes() == b"saved by an editor"
    assert os.listdir(ws) == ["f.txt"]


@pytest.mark.parametrize("how", [{"expected_hash": ""}, {"mode": WriteMode.APPEND}])
def test_a_file_that_appears_in_the_last_moment_is_not_overwritten(
    root: Root, ws: Path, draft: None, how: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def create_then_sync(fd: int) -> None:
        (ws / "f.txt").write_bytes(b"mine")
        sync(fd)

    monkeypatch.setattr(os, "fsync", create_then_sync)
    with pytest.raises(StaleContent):
        write(root, "f.txt", **how)
    assert (ws / "f.txt").read_bytes() == b"mine"
    assert os.listdir(ws) == ["f.txt"]


def test_a_read_only_file_is_left_alone_even_by_root(root: Root, ws: Path) -> None:
    (ws / "f.txt").write_bytes(b"old")
    (ws / "f.txt").chmod(0o444)
    for mode in WriteMode:
        with pytest.raises(SystemRefused) as caught:
            write(root, "f.txt", mode=mode)
        assert caught.value.code == "read_only"
    assert (ws / "f.txt").read_bytes() == b"old"


def test_what_the_user_may_not_write_is_refused(root: Root, ws: Path, ordinary_user) -> None:
    (ws / "shut").mkdir()
    (ws / "shut").chmod(0o555)
    (ws / "theirs.txt").write_bytes(b"old")
    (ws / "theirs.txt").chmod(0o020)
    with ordinary_user():
        for path in ("shut/f.txt", "theirs.txt"):
            with pytest.raises(SystemRefused):
                write(root, path)
    assert (ws / "theirs.txt").stat().st_size == 3


def test_the_last_word_is_on_the_real_path(root: Root, ws: Path) -> None:
    (ws / "lib.so").write_bytes(b"old")
    (ws / "notes.txt").symlink_to("lib.so")
    asked: list[str] = []

    def judge(relative: str) -> Reason | None:
        asked.append(relative)
        return Reason("extension_refused", "no libraries")

    with pytest.raises(AccessRefused) as caught:
        write(root, "notes.txt", judge=judge)
    assert (asked, caught.value.code) == (["lib.so"], "extension_refused")
    assert (ws / "lib.so").read_bytes() == b"old"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failure_half_way_leaves_the_old_file_and_no_trace(
    root: Root, ws: Path, draft: None, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ws / "f.txt").write_bytes(b"old")
    put = os.write

    def fail_half_way(fd: int, data: memoryview) -> int:
        if len(data) < 6:
            raise OSError(number, "the disk says no")
        return put(fd, data[:2])

    monkeypatch.setattr(os, "write", fail_half_way)
    with pytest.raises(SystemRefused):
        write(root, "f.txt", b"new one")
    assert (ws / "f.txt").read_bytes() == b"old"
    assert os.listdir(ws) == ["f.txt"]


STEPS = ("write", "fchmod", "fsync", "link", "rename", "unlink", "close")


def count_steps(action: Callable[[], object], stop_at: int) -> int:
    """Runs the action; the system calls that change something are counted, and the one of this number is never made."""
    done = 0

    def wrap(step: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object, **kwargs: object) -> object:
            nonlocal done
            if done == stop_at:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1
            return step(*args, **kwargs)

        return counted

    for name in STEPS:
        setattr(os, name, wrap(getattr(os, name)))
    posix.Directory.exchange = wrap(posix.Directory.exchange)  # type: ignore[method-assign]
    action()
    return done


def run_killed(action: Callable[[], object], stop_at: int) -> bool:
    """Runs the action in a process that dies at that step; False when it came to its end before."""
    pid = os.fork()
    if pid == 0:
        try:
            count_steps(action, stop_at)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the child only writes and dies
@pytest.mark.parametrize(
    "how", [{}, {"expected_hash": sha256(b"old")}, {"mode": WriteMode.APPEND}], ids=["replace", "expected", "append"]
)
def test_a_crash_at_any_step_leaves_all_of_the_old_or_all_of_the_new(
    root: Root, ws: Path, draft: None, swap: None, how: dict
) -> None:
    new = b"oldnew" if "mode" in how else b"new"
    seen: set[bytes] = set()
    for step in range(100):
        for leftover in ws.iterdir():
            leftover.unlink()
        (ws / "f.txt").write_bytes(b"old")
        died = run_killed(lambda: write(root, "f.txt", **how), step)
        seen.add((ws / "f.txt").read_bytes())
        others = [name for name in os.listdir(ws) if name != "f.txt"]
        assert all(name.startswith(".client-agent-") and name.endswith(".tmp") for name in others)
        assert len(others) <= 1
        if not died:
            break
    assert not died
    assert seen == {b"old", new}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the child only writes and dies
def test_a_crash_while_the_content_is_written_leaves_nothing_behind(root: Root, ws: Path) -> None:
    assert run_killed(lambda: write(root, "f.txt"), 1)  # after the first write
    assert os.listdir(ws) == []


def test_appends_at_the_same_time_are_all_kept(root: Root, ws: Path) -> None:
    failures: list[CallError] = []

    def append(number: int) -> None:
        try:
            write(root, "log.txt" if number % 2 else "./log.txt", f"{number}\n".encode(), mode=WriteMode.APPEND)
        except CallError as error:
            failures.append(error)

    (ws / "log.txt").touch()
    threads = [threading.Thread(target=append, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted((ws / "log.txt").read_text().split(), key=int) == [str(number) for number in range(24)]


def test_readers_never_see_half_a_file(ws: Path) -> None:
    root = Root(ws, Protection())
    contents = [letter * 200_000 for letter in (b"a", b"b")]
    write(root, "f.txt", contents[0])
    done = threading.Event()
    odd: list[int] = []

    def watch() -> None:
        while not done.is_set():
            data = (ws / "f.txt").read_bytes()
            if data not in contents:
                odd.append(len(data))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(40):
        write(root, "f.txt", contents[number % 2])
    done.set()
    watcher.join()
    root.close()
    assert odd == []


def test_a_file_system_without_hard_links_still_refuses_to_overwrite(
    root: Root, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posix, "_UNNAMED", 0)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    write(root, "f.txt", expected_hash="")
    assert os.listdir(ws) == ["f.txt"]
    directory, _ = posix.Directory.open_root(ws)
    (ws / "g.txt").write_bytes(b"g")
    with pytest.raises(FileExistsError):
        directory.claim("g.txt", "f.txt")
    directory.close()
