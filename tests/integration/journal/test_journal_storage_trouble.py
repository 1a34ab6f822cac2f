"""A disk that is really full, a place that is really read-only, a file that is really damaged or locked."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from client_agent.errors import JournalError
from client_agent.journal import database, ledger, storage, writer
from client_agent.journal.audit import AuditEntry
from client_agent.journal.journal import Journal
from client_agent.journal.verification import verify
from client_agent.policy.decision import Decision, Risk, Verdict
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState

OpenJournal = Callable[..., Journal]
StartChild = Callable[..., subprocess.Popen[str]]
RUN = Decision(verdict=Verdict.RUN, risk=Risk.MEDIUM, reasons=(), code="test")

# Mounts of one's own: for an ordinary user, where user namespaces are allowed; for root; where sudo asks nothing.
NAMESPACES = (["unshare", "-rm"], ["unshare", "-m"], ["sudo", "-n", "unshare", "-m"])
MOUNT = 'mount -t tmpfs -o "$0" none "$1" && shift && exec "$@"'


def mounting(options: str, directory: Path) -> list[str] | None:
    """A command prefix under which a small file system of its own lies at this directory; None where none may."""
    for namespace in NAMESPACES:
        prefix = [*namespace, "sh", "-c", MOUNT, options, str(directory)]
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
                return prefix
    return None


FULL = """
import resource
from datetime import UTC, datetime
from client_agent.journal.audit import AuditEntry

directory, how, noting = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "audited"
filler = directory / "filler"

def fill():
    if how == "limit":  # no file of this process may grow
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        return
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass

def free():
    if how == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        filler.unlink()

async def refused(awaitable):
    try:
        await awaitable
    except JournalError as error:
        return error.code
    return "accepted"

def start(ledger, tool_id, effects):
    ledger.admit(call(tool_id), effects=effects, event_id=tool_id)
    ledger.decide(tool_id, RUN)
    return ledger.begin(tool_id)

def note(journal, tool_id):
    if noting:
        journal.note(AuditEntry(time=datetime.now(UTC), operation="WRITE", status="success", tool_id=tool_id))

async def main():
    journal = Journal(directory)
    ledger = journal.recover("main").ledger
    await start(ledger, "running", True)
    journal.flush()
    note(journal, "before")
    fill()
    note(journal, "while full")
    say("result of what ran:", await refused(ledger.finish("running", CallState.COMPLETED, b"done" * 1000)))
    say("trouble:", journal.trouble.code)
    say("write:", await refused(start(ledger, "write", True)))
    say("its end:", await refused(ledger.finish("write", CallState.FAILED, b"full", failure_code="full")))
    say("read:", await refused(start(ledger, "read", False)))
    say("its end:", await refused(ledger.finish("read", CallState.FAILED, b"full", failure_code="full")))
    say("sent:", sorted(due.post.target for due in ledger.outbox.next_due(10, float("inf"))))
    free()
    async with asyncio.timeout(30):
        while not (found := ledger.outbox.next_due(10, float("inf"))):
            await asyncio.sleep(0.01)
    [due] = found
    say("sent by itself:", due.post.target, len(due.body))
    say("trouble:", journal.trouble)
    say("next:", await refused(start(ledger, "next", True)))
    say("its end:", await refused(ledger.finish("next", CallState.COMPLETED, b"done")))
    journal.close()
    import sqlite3
    connection = sqlite3.connect(directory / "journal.sqlite3")
    say(connection.execute("PRAGMA integrity_check").fetchone()[0])
    say(connection.execute("SELECT tool_id, state FROM calls ORDER BY tool_id").fetchall())
    from client_agent.journal.verification import verify
    outcome = verify(directory)
    say("audit:", outcome.entries, outcome.problem, outcome.torn)
    text = (directory / "audit.log").read_text()
    say([text.count(f"tool_id={word}") for word in ("before", '"while full"')])

asyncio.run(main())
"""


@pytest.mark.parametrize("audited", ["audited", "not audited"])
@pytest.mark.parametrize("how", ["small disk", "limit"])
def test_on_a_full_disk_nothing_runs_and_when_space_returns_it_goes_on(
    start_child: StartChild, state_dir: Path, how: str, audited: str
) -> None:
    state_dir.mkdir()
    wrapper = mounting("size=1m", state_dir) if how == "small disk" else []
    # Where no file system may be mounted at all, a limit on the size of files is what there is.
    child = start_child(FULL, state_dir, how if wrapper else "limit", audited, wrapper=wrapper)
    out, errors = child.communicate(timeout=60)
    code = "journal_full" if wrapper else out.splitlines()[0].rsplit(": ", 1)[1]
    assert code in ("journal_full", "journal_failed"), errors
    assert out.splitlines() == [
        f"result of what ran: {code}",
        f"trouble: {code}",
        f"write: {code}",
        "its end: accepted",
        f"read: {code}",
        "its end: accepted",
        "sent: ['read', 'write']",
        "sent by itself: running 4000",
        "trouble: None",
        "next: accepted",
        "its end: accepted",
        "ok",
        "[('next', 'COMPLETED'), ('read', 'FAILED'), ('running', 'COMPLETED'), ('write', 'FAILED')]",
        f"audit: {2 if audited == 'audited' else 0} None None",
        "[1, 1]" if audited == "audited" else "[0, 0]",
    ], errors


def test_a_read_only_place_is_named_when_opening(start_child: StartChild, state_dir: Path) -> None:
    state_dir.mkdir()
    script = """
    try:
        Journal(Path(sys.argv[1]))
    except JournalError as error:
        say(error.code, "how it is mounted" in error.message)
    """
    wrapper = mounting("ro", state_dir)
    if wrapper is None:  # no mounts allowed, hence not root: taking the right to write away is enough
        state_dir.chmod(0o500)
        script = script.replace("try:", "Path.chmod = lambda *_: None\ntry:", 1)
    out, errors = start_child(script, state_dir, wrapper=wrapper).communicate(timeout=30)
    assert (out, errors) == ("journal_readonly True\n", "")


async def test_a_file_damaged_while_open_is_an_error_and_never_an_unknown_call(
    open_journal: OpenJournal, state_dir: Path
) -> None:
    journal = open_journal()
    book = journal.recover("main").ledger
    for number in range(300):
        book.admit(Call(tool_id=f"t-{number}", tool_name="read_file", tool_params={"path": "x" * 300}), effects=False)
        book.decide(f"t-{number}", RUN)
        await book.begin(f"t-{number}")
        await book.finish(f"t-{number}", CallState.COMPLETED, b"body")
    journal.close()

    journal = open_journal()
    book = journal.recover("main").ledger
    path = state_dir / "journal.sqlite3"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(JournalError) as damaged:
        book.admit(Call(tool_id="t-7", tool_name="read_file", tool_params={"path": "x" * 300}), effects=False)
    assert damaged.value.code == "journal_damaged"
    assert "restart the daemon" in damaged.value.message


async def test_a_file_that_another_program_holds_is_named_and_then_written(
    open_journal: OpenJournal, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.05)
    book = open_journal().recover("main").ledger
    book.admit(Call(tool_id="t-1", tool_name="write_file", tool_params={}), effects=True)
    book.decide("t-1", RUN)
    with contextlib.closing(sqlite3.connect(state_dir / "journal.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(JournalError, match="another program holds it") as busy:
            await book.begin("t-1")
        assert busy.value.code == "journal_busy"
        assert book.find("t-1").state is CallState.APPROVED  # type: ignore[union-attr]
        other.execute("ROLLBACK")
    assert (await book.begin("t-1")).state is CallState.EXECUTING


async def test_an_audit_entry_is_written_once_however_often_the_rest_has_to_be_tried(
    open_journal: OpenJournal, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    journal = open_journal()
    book = journal.recover("main").ledger
    with contextlib.closing(sqlite3.connect(state_dir / "journal.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        book.handled("7")
        journal.note(audit_entry())
        for _ in range(3):
            with pytest.raises(JournalError):
                journal.flush()
        other.execute("ROLLBACK")
    journal.close()
    assert verify(state_dir).entries == 1
    assert len((state_dir / "audit.log").read_text().splitlines()) == 1


async def test_when_too_much_waits_nothing_more_is_taken_in(
    open_journal: OpenJournal, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    monkeypatch.setattr(ledger, "MAX_BACKLOG", 10)
    monkeypatch.setattr(writer, "MAX_BACKLOG_ENTRIES", 5)
    journal = open_journal()
    book = journal.recover("main").ledger
    with contextlib.closing(sqlite3.connect(state_dir / "journal.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        book.handled("1")
        with pytest.raises(JournalError):
            journal.flush()
        for number in range(10):
            book.admit(Call(tool_id=f"t-{number}", tool_name="read_file", tool_params={}), effects=False)
        with pytest.raises(JournalError) as behind:
            book.admit(Call(tool_id="t-10", tool_name="read_file", tool_params={}), effects=False)
        assert behind.value.code == "journal_behind"
        with pytest.raises(JournalError):
            book.refuse("t-99", b"malformed")
        for _ in range(8):
            journal.note(audit_entry())
        with pytest.raises(JournalError):
            journal.flush()
        other.execute("ROLLBACK")
    journal.flush()
    book.admit(Call(tool_id="t-99", tool_name="read_file", tool_params={}), effects=False)
    journal.close()
    assert "entries could not be recorded" in (state_dir / "audit.log").read_text()
    assert verify(state_dir).problem is None


def audit_entry() -> AuditEntry:
    from datetime import UTC, datetime

    return AuditEntry(time=datetime.now(UTC), operation="READ", status="success")


async def test_large_results_wait_for_the_disk_rather_than_pile_up(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_BACKLOG_BYTES", 1000)
    monkeypatch.setattr(writer, "RELAXED_DELAY_S", 3600)
    journal = open_journal()
    book = journal.recover("main").ledger
    for number in range(5):
        book.admit(Call(tool_id=f"t-{number}", tool_name="read_file", tool_params={}), effects=False)
        book.decide(f"t-{number}", RUN)
        await book.begin(f"t-{number}")
        async with asyncio.timeout(30):
            await book.finish(f"t-{number}", CallState.COMPLETED, b"x" * 600)
    assert journal.reader.body(book.outbox.next_due(1, float("inf"))[0].post) == b"x" * 600


async def test_calls_that_come_faster_than_they_are_stored_wait_for_the_disk(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BEHIND_CALLS", 20)
    monkeypatch.setattr(writer, "ENOUGH_CALLS", 1_000_000)
    monkeypatch.setattr(writer, "RELAXED_DELAY_S", 3600)
    book = open_journal().recover("main").ledger
    most = 0
    for number in range(100):
        book.admit(Call(tool_id=f"t-{number}", tool_name="read_file", tool_params={}), effects=False)
        book.decide(f"t-{number}", RUN)
        await book.begin(f"t-{number}")
        most = max(most, len(book._calls))
        async with asyncio.timeout(30):
            await book.finish(f"t-{number}", CallState.COMPLETED, b"x")
    assert most == 21


async def test_many_calls_are_stored_before_the_time_is_up(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RELAXED_DELAY_S", 3600)
    journal = open_journal()
    book = journal.recover("main").ledger
    for number in range(writer.ENOUGH_CALLS):
        book.admit(Call(tool_id=f"t-{number}", tool_name="read_file", tool_params={}), effects=False)
    async with asyncio.timeout(30):
        while len(journal.reader.unfinished_calls("main")) < writer.ENOUGH_CALLS:
            await asyncio.sleep(0.01)


async def test_a_mistake_of_our_own_stops_nobody_for_ever(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(_: object) -> dict[str, object]:
        raise ZeroDivisionError

    book = open_journal().recover("main").ledger
    with monkeypatch.context() as broken:
        broken.setattr(storage, "mask", stumble)
        book.admit(Call(tool_id="t-1", tool_name="write_file", tool_params={}), effects=True)
        book.decide("t-1", RUN)
        with pytest.raises(JournalError, match="ZeroDivisionError"):
            await book.begin("t-1")
    assert (await book.begin("t-1")).state is CallState.EXECUTING


async def test_pruning_a_file_that_is_held_is_an_error_for_who_asked(
    open_journal: OpenJournal, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    journal = open_journal()
    with contextlib.closing(sqlite3.connect(state_dir / "journal.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(JournalError) as busy:
            await journal.prune()
        assert busy.value.code == "journal_busy"
    assert (await journal.prune()).calls == 0


def test_a_commit_that_nobody_waits_for_any_more_harms_nothing(open_journal: OpenJournal, state_dir: Path) -> None:
    journal = open_journal()
    book = journal.recover("main").ledger

    async def begin_and_leave() -> None:
        book.admit(Call(tool_id="t-1", tool_name="write_file", tool_params={}), effects=True)
        book.decide("t-1", RUN)
        beginning = asyncio.create_task(book.begin("t-1"))
        await asyncio.sleep(0)
        beginning.cancel()

    with contextlib.closing(sqlite3.connect(state_dir / "journal.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        asyncio.run(begin_and_leave())
    journal.flush()
    assert journal.reader.call("main", "t-1").state is CallState.EXECUTING  # type: ignore[union-attr]


def test_closing_says_when_the_last_things_could_not_be_stored(
    open_journal: OpenJournal, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    journal = open_journal()
    with contextlib.closing(sqlite3.connect(state_dir / "journal.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        journal.recover("main").ledger.handled("7")
        with pytest.raises(JournalError):
            journal.close()
    open_journal()
