"""What is kept before a write: in which order, for how long, and for whose eyes."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing

import pytest

from client_agent.errors import ClientAgentError, JournalError, StaleContent
from client_agent.journal import writes as writes_module
from client_agent.journal.writes import Keeper
from client_agent.workspace import posix, writing
from tests.integration.undo.conftest import Desk, MakeDesk

DAY_S = 86_400


@pytest.mark.parametrize("moment", ["before keeping", "after keeping", "after writing"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the child only writes and dies
def test_a_process_killed_at_any_moment_leaves_the_old_or_what_can_be_undone(make_desk: MakeDesk, moment: str) -> None:
    desk = make_desk()
    (desk.ws / "a.md").write_bytes(b"one")
    run_killed(lambda: desk.write("t1", "a.md", b"two"), moment)
    after = make_desk()  # as the next process finds it
    assert os.listdir(after.ws) == ["a.md"]
    if moment == "before keeping":
        assert (after.read("a.md"), after.undo.recent()) == (b"one", [])
    elif moment == "after keeping":
        assert after.read("a.md") == b"one"
        with pytest.raises(ClientAgentError) as error:
            after.apply("t1")
        assert error.value.code == "nothing_to_undo"
    else:
        assert after.read("a.md") == b"two"
        after.apply("t1")
    assert after.read("a.md") == b"one"


def run_killed(action: Callable[[], object], moment: str) -> None:
    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        if moment == "before keeping":
            Keeper.keep = die  # type: ignore[method-assign, assignment]
        elif moment == "after keeping":
            writing._Draft.put_over_content = die  # type: ignore[method-assign, assignment]
        else:
            posix.Directory.sync = die  # type: ignore[method-assign]
        action()
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)


def test_a_content_whose_write_was_never_recorded_is_swept_away(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk.ws / "a.md").write_bytes(b"one")
    desk.write("t1", "a.md", b"two")
    (desk.state / "undo" / ("0" * 64)).write_bytes(b"left by a process that died")
    desk.writes.prune()
    assert len(desk.kept) == 1
    desk.apply("t1")


def test_a_content_swept_away_before_its_write_is_recorded_is_kept_again(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, other = make_desk(), make_desk()
    other.write("t0", "b.md", b"x")
    put = desk.writes._contents.put
    swept = []

    def put_and_be_swept(source: int) -> tuple[str, int]:
        kept = put(source)
        if not swept:
            swept.append(other.writes.prune())
        return kept

    monkeypatch.setattr(desk.writes._contents, "put", put_and_be_swept)
    (desk.ws / "a.md").write_bytes(b"one")
    desk.write("t1", "a.md", b"two")
    assert swept
    desk.apply("t1")
    assert desk.read("a.md") == b"one"


def test_what_changes_between_keeping_and_writing_is_not_replaced(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk.ws / "a.md").write_bytes(b"one")
    keep = Keeper.keep

    def keep_and_be_overtaken(self: Keeper, path: str, old: int | None, **how: object) -> str | None:
        kept = keep(self, path, old, **how)  # type: ignore[arg-type]
        (desk.ws / path).write_bytes(b"mine")
        return kept

    monkeypatch.setattr(Keeper, "keep", keep_and_be_overtaken)
    for write_id, path in (("t1", "a.md"), ("t2", "new.md")):
        with pytest.raises(StaleContent):
            desk.write(write_id, path, b"two")
        assert desk.read(path) == b"mine"
    assert desk.undo.recent() == []


def test_when_nothing_can_be_kept_nothing_is_written(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk.ws / "a.md").write_bytes(b"one")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(desk.writes._contents, "put", full)
    with pytest.raises(JournalError) as error:
        desk.write("t1", "a.md", b"two")
    assert error.value.code == "journal_full"
    assert desk.read("a.md") == b"one"
    assert os.listdir(desk.ws) == ["a.md"]


def test_the_same_content_is_kept_once_and_only_for_its_user(desk: Desk) -> None:
    for number in range(3):
        (desk.ws / f"{number}.md").write_bytes(b"the same")
        desk.write(f"t{number}", f"{number}.md", b"new")
    (kept,) = desk.kept
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((desk.state / "writes.sqlite3").stat().st_mode) == 0o600


def test_the_oldest_goes_when_it_is_too_much(make_desk: MakeDesk) -> None:
    desk = make_desk(max_bytes=2500)
    for number in range(4):
        (desk.ws / f"{number}.md").write_bytes(bytes([number]) * 1000)
        desk.write(f"t{number}", f"{number}.md", b"new")
    assert [write.id for write in desk.undo.recent()] == ["t3", "t2"]
    assert sum(path.stat().st_size for path in desk.kept) == 2000
    desk.apply("t3")
    assert desk.read("3.md") == bytes([3]) * 1000


def test_what_is_old_is_forgotten(make_desk: MakeDesk) -> None:
    now = [1_000_000.0]
    desk = make_desk(keep_days=2, now=lambda: now[0])
    (desk.ws / "a.md").write_bytes(b"one")
    desk.write("t1", "a.md", b"two")
    now[0] += DAY_S
    desk.write("t2", "b.md", b"x")
    now[0] += 1.5 * DAY_S
    desk.writes.prune()
    assert [write.id for write in desk.undo.recent()] == ["t2"]
    assert desk.kept == []


def test_what_is_too_large_is_replaced_and_said_not_to_be_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes_module, "MAX_KEPT_BYTES", 10)
    (desk.ws / "a.md").write_bytes(b"more than ten bytes")
    desk.write("t1", "a.md", b"two")
    assert desk.kept == []
    with pytest.raises(ClientAgentError) as error:
        desk.apply("t1")
    assert error.value.code == "not_kept"


def test_with_no_room_configured_nothing_is_kept(make_desk: MakeDesk) -> None:
    desk = make_desk(max_bytes=0)
    (desk.ws / "a.md").write_bytes(b"one")
    desk.write("t1", "a.md", b"two")
    assert (desk.kept, desk.undo.recent()) == ([], [])


def test_a_kept_content_that_was_tampered_with_is_not_put_back(desk: Desk) -> None:
    (desk.ws / "a.md").write_bytes(b"one")
    desk.write("t1", "a.md", b"two")
    desk.kept[0].write_bytes(b"evil")
    with pytest.raises(ClientAgentError) as error:
        desk.apply("t1")
    assert error.value.code == "not_kept"
    assert desk.read("a.md") == b"two"


def test_a_damaged_record_is_set_aside_and_writes_go_on(make_desk: MakeDesk) -> None:
    desk = make_desk()
    desk.state.mkdir()
    (desk.state / "writes.sqlite3").write_bytes(b"not a database" * 100)
    desk.write("t1", "a.md", b"x")
    desk.apply("t1")
    assert any("damaged" in name for name in os.listdir(desk.state))


def test_no_name_or_content_of_a_secret_is_in_the_record(desk: Desk) -> None:
    (desk.ws / ".env").write_bytes(b"TOKEN=canary")
    with pytest.raises(ClientAgentError):
        desk.write("t1", ".env", b"x")
    (desk.ws / "link.md").symlink_to(".env")
    with pytest.raises(ClientAgentError):
        desk.write("t2", "link.md", b"x")
    assert desk.kept == []
    assert not (desk.state / "writes.sqlite3").exists()


def test_contents_are_listed_in_the_record_and_nowhere_else(desk: Desk) -> None:
    (desk.ws / "a.md").write_bytes(b"canary-content")
    desk.write("t1", "a.md", b"two")
    with closing(sqlite3.connect(desk.state / "writes.sqlite3")) as connection:
        dump = "\n".join(connection.iterdump())
    assert "a.md" in dump
    assert "canary-content" not in dump


STEPS = ("write", "fsync", "rename", "link", "unlink", "close")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the child only writes and dies
def test_after_a_crash_at_any_system_call_the_old_content_can_be_had(make_desk: MakeDesk) -> None:
    seen: set[bytes] = set()
    for step in range(200):
        desk = make_desk()
        (desk.ws / "a.md").write_bytes(b"one")
        died = dies_at(step, lambda desk=desk, step=step: desk.write(f"t{step}", "a.md", b"two"))
        after = make_desk()
        seen.add(after.read("a.md"))
        if after.read("a.md") == b"two":
            after.apply(f"t{step}")
        assert after.read("a.md") == b"one"
        if not died:
            break
    assert not died
    assert seen == {b"one", b"two"}


def dies_at(step: int, action: Callable[[], object]) -> bool:
    """Runs the action in a process that dies before the system call of this number; False when it came to its end."""
    pid = os.fork()
    if pid == 0:
        left = [step]

        def wrap(call: Callable[..., object]) -> Callable[..., object]:
            def counted(*args: object, **kwargs: object) -> object:
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
                return call(*args, **kwargs)

            return counted

        try:
            for name in STEPS:
                setattr(os, name, wrap(getattr(os, name)))
            posix.Directory.exchange = wrap(posix.Directory.exchange)  # type: ignore[method-assign]
            action()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)
