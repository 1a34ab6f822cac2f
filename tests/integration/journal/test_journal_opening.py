from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from client_agent.errors import JournalError
from client_agent.journal.database import JOURNAL, open_file, open_reader
from client_agent.journal.journal import Journal
from client_agent.journal.reader import Reader, reading
from client_agent.protocol.calls import Call

OpenJournal = Callable[..., Journal]
StartChild = Callable[..., subprocess.Popen[str]]


def change(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


def fill(journal: Journal, count: int = 1) -> None:
    ledger = journal.recover("main").ledger
    for number in range(count):
        ledger.admit(Call(tool_id=f"t-{number}", tool_name="read_file", tool_params={"path": "x" * 500}), effects=False)
    journal.flush()


def test_files_are_for_their_owner_alone(open_journal: OpenJournal, state_dir: Path) -> None:
    state_dir.mkdir(mode=0o755)
    (state_dir / "journal.sqlite3").touch(mode=0o644)
    fill(open_journal())
    assert stat.S_IMODE(state_dir.stat().st_mode) == 0o700
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in state_dir.iterdir()}
    assert {"journal.sqlite3", "journal.sqlite3-wal", "daemon.lock", "audit.jsonl", "audit.log"} <= set(modes)
    assert set(modes.values()) == {"0o600"}


def test_a_second_journal_in_the_same_directory_is_refused(open_journal: OpenJournal, state_dir: Path) -> None:
    first = open_journal()
    with pytest.raises(JournalError, match=f"already running .*{os.getpid()}") as refused:
        Journal(state_dir)
    assert refused.value.code == "already_running"
    first.close()
    open_journal()


def test_another_process_holds_the_directory_until_it_dies(
    open_journal: OpenJournal, start_child: StartChild, state_dir: Path
) -> None:
    child = start_child("journal = Journal(Path(sys.argv[1])); say('open'); sys.stdin.read()", state_dir)
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    with pytest.raises(JournalError, match=f"process {child.pid}") as refused:
        open_journal()
    assert refused.value.code == "already_running"
    child.kill()
    child.wait()
    open_journal()


def test_a_journal_of_a_newer_program_is_refused_and_left_alone(open_journal: OpenJournal, state_dir: Path) -> None:
    open_journal().close()
    change(state_dir / "journal.sqlite3", "PRAGMA user_version = 99")
    for attempt in (open_journal, lambda: Reader(state_dir)):
        with pytest.raises(JournalError, match="newer client-agent") as refused:
            attempt()
        assert refused.value.code == "downgrade"
    assert not list(state_dir.glob("*.damaged-*"))


def test_a_refused_opening_does_not_keep_the_directory(open_journal: OpenJournal, state_dir: Path) -> None:
    open_journal().close()
    change(state_dir / "journal.sqlite3", "PRAGMA user_version = 99")
    with pytest.raises(JournalError):
        open_journal()
    change(state_dir / "journal.sqlite3", "PRAGMA user_version = 1")
    open_journal()


def damage_header(path: Path) -> None:
    path.write_bytes(b"not a database at all" + path.read_bytes()[21:])


def damage_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for page in range(8192, len(content), 4096):
        content[page : page + 64] = b"\xff" * 64
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def make_foreign(path: Path) -> None:
    path.unlink()
    change(path, "CREATE TABLE bookmarks (url TEXT)")


@pytest.mark.parametrize("damage", [damage_header, damage_middle, cut_short, make_foreign])
def test_a_damaged_or_foreign_journal_is_set_aside_whole(
    open_journal: OpenJournal, state_dir: Path, damage: Callable[[Path], None]
) -> None:
    journal = open_journal()
    fill(journal, 200)
    journal.close()
    path = state_dir / "journal.sqlite3"
    damage(path)
    before = path.read_bytes()
    journal = open_journal(now=lambda: 1_767_098_096.0)
    assert journal.set_aside == state_dir / "journal.sqlite3.damaged-20251230T123456Z"
    assert journal.set_aside.read_bytes() == before
    assert journal.reader.recent_calls() == []
    fill(journal)


def test_a_sound_journal_is_not_set_aside(open_journal: OpenJournal) -> None:
    journal = open_journal()
    fill(journal)
    journal.close()
    assert open_journal().set_aside is None


def test_a_workspace_has_one_ledger(open_journal: OpenJournal) -> None:
    journal = open_journal()
    journal.recover("main")
    with pytest.raises(JournalError, match="in use already"):
        journal.recover("main")


def test_an_empty_file_is_taken_as_new(open_journal: OpenJournal, state_dir: Path) -> None:
    state_dir.mkdir()
    (state_dir / "journal.sqlite3").touch()
    journal = open_journal()
    fill(journal)
    assert journal.set_aside is None


def test_commands_read_while_the_daemon_writes(open_journal: OpenJournal, state_dir: Path) -> None:
    journal = open_journal()
    fill(journal, 3)
    with reading(state_dir) as reader:
        assert [record.tool_id for record in reader.recent_calls()] == ["t-2", "t-1", "t-0"]
        assert [record.tool_id for record in reader.recent_calls(limit=1, workspace="main")] == ["t-2"]
        assert reader.recent_calls(workspace="other") == []
        assert [record.tool_id for record in reader.calls_by_id("t-1")] == ["t-1"]
        assert len(reader.calls_by_id("t-")) == 3
        ledger = journal.recover("second").ledger
        ledger.admit(Call(tool_id="new", tool_name="read_file", tool_params={}), effects=False)
        journal.flush()
        assert reader.recent_calls(limit=1)[0].tool_id == "new"
        oldest = reader.recent_calls()[-1]
        assert reader.recent_calls(before=oldest.created_at) == []


def test_a_reader_cannot_write(open_journal: OpenJournal, state_dir: Path) -> None:
    fill(open_journal())
    with reading(state_dir) as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._connection.execute("DELETE FROM calls")


def test_reading_before_there_is_a_journal_says_so(state_dir: Path) -> None:
    with pytest.raises(JournalError, match="when the daemon first starts") as missing:
        Reader(state_dir)
    assert missing.value.code == "journal_missing"


def test_reading_an_older_journal_asks_for_the_daemon(state_dir: Path, open_journal: OpenJournal) -> None:
    open_journal().close()
    change(state_dir / "journal.sqlite3", "PRAGMA user_version = 0")
    with pytest.raises(JournalError, match="restart the daemon") as outdated:
        Reader(state_dir)
    assert outdated.value.code == "journal_outdated"


def test_reading_something_else_says_so(state_dir: Path) -> None:
    state_dir.mkdir()
    (state_dir / "journal.sqlite3").write_text("something else entirely, and long enough to be looked at" * 20)
    with pytest.raises(JournalError) as damaged:
        Reader(state_dir)
    assert damaged.value.code == "journal_damaged"


def test_two_processes_that_find_a_new_file_both_get_it(start_child: StartChild, state_dir: Path) -> None:
    state_dir.mkdir()
    script = """
    from client_agent.journal.database import PERMISSIONS, open_file
    say("ready")
    sys.stdin.readline()
    open_file(Path(sys.argv[1]) / "permissions.sqlite3", PERMISSIONS).close()
    say("opened")
    """
    children = [start_child(script, state_dir) for _ in range(4)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        out, err = child.communicate(timeout=30)
        assert (out, err) == ("opened\n", "")


def test_a_place_that_cannot_be_a_directory_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="file"):
        Journal(tmp_path / "file" / "state")


def test_a_connection_that_fails_to_open_is_closed(state_dir: Path) -> None:
    state_dir.mkdir()
    (state_dir / "journal.sqlite3").write_text("x" * 5000)
    with pytest.raises(JournalError):
        open_file(state_dir / "journal.sqlite3", JOURNAL)


def test_no_connection_keeps_much_of_a_file_in_memory(open_journal: OpenJournal, state_dir: Path) -> None:
    open_journal()
    path = state_dir / "journal.sqlite3"
    for connection in (open_file(path, JOURNAL), open_reader(path, JOURNAL)):
        with contextlib.closing(connection):
            assert connection.execute("PRAGMA cache_size").fetchone()[0] == -256
