from __future__ import annotations

import json
import stat
import subprocess
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from client_agent.errors import JournalError
from client_agent.journal import audit, verification, writer
from client_agent.journal.audit import AuditEntry, AuditLog, Head
from client_agent.journal.journal import Journal
from client_agent.journal.verification import verify

OpenJournal = Callable[..., Journal]
StartChild = Callable[..., subprocess.Popen[str]]


def entry(number: int, **fields: str) -> AuditEntry:
    return AuditEntry(time=datetime.now(UTC), operation="READ", status="success", tool_id=f"t-{number}", **fields)  # type: ignore[arg-type]


def write(directory: Path, *numbers: int, fallback: Head | None = None, max_bytes: int = 10_000_000) -> Head:
    log = AuditLog(directory, fallback=fallback, max_bytes=max_bytes)
    for number in numbers:
        log.append([entry(number)])
    log.sync()
    log.close()
    return log.head


def lines(directory: Path, name: str = "audit.jsonl") -> list[bytes]:
    return (directory / name).read_bytes().splitlines(keepends=True)


def test_entries_are_written_in_order_in_both_forms(open_journal: OpenJournal, state_dir: Path) -> None:
    journal = open_journal()
    for number in range(100):
        journal.note(entry(number, target="curl --token hunter2"))
    journal.close()
    found = [json.loads(line) for line in lines(state_dir)]
    assert [each["tool_id"] for each in found] == [f"t-{number}" for number in range(100)]
    assert [each["sequence"] for each in found] == list(range(1, 101))
    assert len(lines(state_dir, "audit.log")) == 100
    for name in ("audit.jsonl", "audit.log"):
        assert stat.S_IMODE((state_dir / name).stat().st_mode) == 0o600
        assert "hunter2" not in (state_dir / name).read_text()
    outcome = verify(state_dir)
    assert (outcome.entries, outcome.first_sequence, outcome.problem, outcome.torn) == (100, 1, None, None)


def test_several_commits_in_a_row_take_the_log_to_the_disk_once_and_the_end_does_as_well(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RELAXED_DELAY_S", 3600.0)
    synced: list[int] = []
    sync = AuditLog.sync
    monkeypatch.setattr(AuditLog, "sync", lambda self: sync(self) or synced.append(self.head.sequence))
    journal = open_journal()
    for number in range(10):
        journal.note(entry(number))
        journal.flush()
    journal.close()
    assert synced == [1, 10]


def test_the_log_reaches_the_disk_soon_after_a_commit_that_somebody_waited_for(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Event()
    sync = AuditLog.sync
    monkeypatch.setattr(AuditLog, "sync", lambda self: sync(self) or (self.head.sequence == 2 and both.set()))
    journal = open_journal()
    for number in range(2):
        journal.note(entry(number))
        journal.flush()
    assert both.wait(30)  # nothing else is to be stored, and nobody closes it


def test_the_chain_goes_on_after_a_restart_and_the_journal_knows_its_end(
    open_journal: OpenJournal, state_dir: Path
) -> None:
    for number in range(3):
        journal = open_journal()
        journal.note(entry(number))
        journal.flush()
        recorded = journal.reader.audit_head()
        journal.close()
    outcome = verify(state_dir, recorded)
    assert (outcome.entries, outcome.last, outcome.problem) == (3, recorded, None)


@pytest.mark.parametrize("position", range(5))
@pytest.mark.parametrize("tampering", ["change", "remove", "repeat", "insert", "swap"])
def test_tampering_is_found_at_the_first_entry_it_touches(tmp_path: Path, position: int, tampering: str) -> None:
    head = write(tmp_path, 0, 1, 2, 3, 4)
    old = lines(tmp_path)
    new = list(old)
    if tampering == "change":
        new[position] = old[position].replace(b'"success"', b'"denied"')
    elif tampering == "remove":
        del new[position]
    elif tampering == "repeat":
        new.insert(position, old[position])
    elif tampering == "insert":
        _, made_up = audit.chain(Head(position, "0" * 64), entry(99))
        new.insert(position, made_up)
    else:
        other = (position + 1) % 5
        new[position], new[other] = old[other], old[position]
    (tmp_path / "audit.jsonl").write_bytes(b"".join(new))
    outcome = verify(tmp_path, head)
    assert outcome.problem is not None
    ends_missing = tampering == "remove" and position in (0, 4)
    if not ends_missing:
        first_changed = next(n for n in range(5) if new[n] != old[n]) if tampering != "repeat" else position + 1
        # A beginning that is whole in itself gives itself away by what follows it.
        first_found = 1 if first_changed == 0 and tampering in ("insert", "swap") else first_changed
        assert (outcome.file, outcome.line) == ("audit.jsonl", first_found + 1)


def test_the_first_entry_that_was_changed_is_named(tmp_path: Path) -> None:
    write(tmp_path, 0, 1, 2)
    content = (tmp_path / "audit.jsonl").read_bytes()
    (tmp_path / "audit.jsonl").write_bytes(content.replace(b'"t-1"', b'"t-7"'))
    outcome = verify(tmp_path)
    assert (outcome.problem, outcome.file, outcome.line, outcome.entries) == (
        "entry 2 was changed",
        "audit.jsonl",
        2,
        1,
    )


def test_an_entry_that_was_removed_is_named(tmp_path: Path) -> None:
    write(tmp_path, 0, 1, 2)
    first, _, last = lines(tmp_path)
    (tmp_path / "audit.jsonl").write_bytes(first + last)
    assert verify(tmp_path).problem == "entry 3 stands where entry 2 belongs"


def test_an_entry_of_which_only_a_part_fitted_is_written_once(start_child: StartChild, tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_text("x" * 4989 + "\n")
    script = """
    import resource
    from datetime import UTC, datetime
    from client_agent.journal.audit import AuditEntry, AuditLog
    log = AuditLog(Path(sys.argv[1]))
    entries = [AuditEntry(time=datetime.now(UTC), operation="READ", status="success")]
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
    try:
        log.append(entries)
    except JournalError as error:
        say(error.code, os.path.getsize(Path(sys.argv[1]) / "audit.log"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    log.append(entries)
    """
    assert start_child(script, tmp_path).communicate(timeout=30) == ("journal_full 4990\n", "")
    assert verify(tmp_path).entries == 1
    assert len(lines(tmp_path, "audit.log")) == 2


def test_an_end_cut_off_whole_is_known_from_the_journal(tmp_path: Path) -> None:
    head = write(tmp_path, 0, 1, 2)
    (tmp_path / "audit.jsonl").write_bytes(b"".join(lines(tmp_path)[:2]))
    assert verify(tmp_path).problem is None
    outcome = verify(tmp_path, head)
    assert outcome.problem == "the log ends with entry 2, but the journal knows of 3: the end is gone"


def test_a_log_written_anew_is_known_from_the_journal(tmp_path: Path) -> None:
    head = write(tmp_path, 0, 1, 2)
    (tmp_path / "audit.jsonl").unlink()
    write(tmp_path, 7, 8, 9)
    assert verify(tmp_path).problem is None
    assert verify(tmp_path, head).problem == "entry 3 is not the one that the journal knows"


def test_a_log_that_is_gone_is_known_from_the_journal(tmp_path: Path) -> None:
    assert verify(tmp_path).problem is None
    assert verify(tmp_path, Head(3, "a" * 64)).problem is not None


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_line_torn_by_a_crash_is_reported_and_later_removed_with_a_remark(tmp_path: Path, kept: int) -> None:
    write(tmp_path, 0, 1, 2)
    *whole, last = lines(tmp_path)
    (tmp_path / "audit.jsonl").write_bytes(b"".join(whole) + last[:kept])
    outcome = verify(tmp_path)
    assert (outcome.entries, outcome.problem) == (2, None)
    assert outcome.torn is not None
    write(tmp_path, 3)
    outcome = verify(tmp_path)
    assert (outcome.entries, outcome.problem, outcome.torn) == (4, None, None)
    assert json.loads(lines(tmp_path)[2])["code"] == "torn_line_removed"


def test_a_log_torn_in_its_very_first_line_starts_over(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").write_bytes(b'{"sequence":1')
    write(tmp_path, 0)
    assert (verify(tmp_path).entries, verify(tmp_path).problem) == (2, None)


def test_an_end_that_went_missing_before_a_restart_is_remarked(tmp_path: Path) -> None:
    head = write(tmp_path, 0, 1, 2)
    (tmp_path / "audit.jsonl").write_bytes(lines(tmp_path)[0])
    write(tmp_path, 5, fallback=head)
    remark = json.loads(lines(tmp_path)[1])
    assert (remark["code"], remark["reasons"]) == ("entries_missing", ["2 to 3 are missing here"])


def test_a_deleted_log_goes_on_from_what_the_journal_knows(tmp_path: Path) -> None:
    head = write(tmp_path, 0, 1, 2)
    (tmp_path / "audit.jsonl").unlink()
    write(tmp_path, 3, fallback=head)
    outcome = verify(tmp_path)
    assert (outcome.first_sequence, outcome.entries) == (4, 1)
    assert outcome.problem == "the log begins with entry 4: the entries before it are gone"


def test_a_log_with_an_unreadable_end_is_put_away_and_stays_evidence(tmp_path: Path) -> None:
    head = write(tmp_path, 0, 1)
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b"garbage\n")
    write(tmp_path, 2, fallback=head)
    outcome = verify(tmp_path)
    assert (outcome.problem, outcome.file, outcome.line) == ("entry 3 was changed", "audit-000000000002.jsonl", 3)


def test_rotation_keeps_the_chain_across_files_and_the_newest_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "KEPT_FILES", 3)
    monkeypatch.setattr(verification, "KEPT_FILES", 3)
    head = write(tmp_path, *range(20), max_bytes=700)
    names = sorted(path.name for path in tmp_path.iterdir())
    rotated = [name for name in names if name.startswith("audit-") and name.endswith(".jsonl")]
    assert len(rotated) == 3
    assert len([name for name in names if name.endswith(".log")]) == 4
    first = json.loads(lines(tmp_path)[0])
    before = json.loads(lines(tmp_path, rotated[-1])[-1])
    assert first["prev"] == before["hash"]
    outcome = verify(tmp_path, head)
    assert (outcome.problem, outcome.last) == (None, head)
    assert outcome.first_sequence is not None
    assert outcome.first_sequence > 1
    assert outcome.entries == 20 - outcome.first_sequence + 1


@pytest.mark.parametrize("harm", ["cut", "remove"])
def test_harm_to_a_rotated_file_is_found(tmp_path: Path, harm: str) -> None:
    write(tmp_path, *range(12), max_bytes=700)
    middle = sorted(tmp_path.glob("audit-*.jsonl"))[1]
    if harm == "cut":
        middle.write_bytes(middle.read_bytes()[:-5])
    else:
        middle.unlink()
    assert verify(tmp_path).problem is not None


def test_a_place_that_cannot_hold_the_log_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    with pytest.raises(JournalError, match=r"audit\.jsonl"):
        AuditLog(tmp_path)
