"""Processes killed with SIGKILL at every step, and at no particular moment; then the journal is opened again."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from client_agent.journal.journal import Journal
from client_agent.journal.records import Standing
from client_agent.journal.verification import verify
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState

OpenJournal = Callable[..., Journal]
StartChild = Callable[..., subprocess.Popen[str]]

STEPS = """
async def main(last):
    journal = Journal(Path(sys.argv[1]))
    ledger = journal.recover("main").ledger
    async def step(name, action=None):
        if action is not None:
            await action
        if name == last:
            die()
    ledger.admit(call("t-1"), effects=True, event_id="7")
    await step("admitted")
    journal.flush()
    await step("admitted and stored")
    ledger.decide("t-1", ASK)
    journal.flush()
    await step("asked")
    ledger.approve("t-1", approver="ada")
    journal.flush()
    await step("approved")
    await step("began", ledger.begin("t-1"))
    await step("finished", ledger.finish("t-1", CallState.COMPLETED, b"the result"))
    [due] = ledger.outbox.next_due(1, float("inf"))
    await step("taken")
    ledger.outbox.mark_delivered(due.post.kind, due.post.target)
    await step("acknowledged")
    journal.flush()
    await step("acknowledged and stored")
asyncio.run(main(sys.argv[2]))
"""
CALL = Call(tool_id="t-1", tool_name="write_file", tool_params={"path": "a.txt", "content": "x"})


def check_integrity(state_dir: Path) -> None:
    with contextlib.closing(sqlite3.connect(state_dir / "journal.sqlite3")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("admitted", (Standing.NEW, CallState.PENDING, "", [])),
        ("admitted and stored", (Standing.UNFINISHED, CallState.PENDING, "7", [])),
        ("asked", (Standing.UNFINISHED, CallState.AWAITING_APPROVAL, "7", [])),
        ("approved", (Standing.UNFINISHED, CallState.APPROVED, "7", [])),
        ("began", (Standing.FINISHED, CallState.FAILED, "7", ["interrupted"])),
        ("finished", (Standing.FINISHED, CallState.COMPLETED, "7", ["the result"])),
        ("taken", (Standing.FINISHED, CallState.COMPLETED, "7", ["the result"])),
        ("acknowledged", (Standing.FINISHED, CallState.COMPLETED, "7", ["the result"])),
        ("acknowledged and stored", (Standing.FINISHED, CallState.COMPLETED, "7", [])),
    ],
)
def test_after_a_kill_at_each_step_everything_is_as_promised(
    open_journal: OpenJournal,
    start_child: StartChild,
    state_dir: Path,
    last: str,
    expected: tuple[Standing, CallState, str, list[str]],
) -> None:
    standing, state, event_id, bodies = expected
    child = start_child(STEPS, state_dir, last)
    _, errors = child.communicate(timeout=30)
    assert (child.returncode, errors) == (-9, "")
    check_integrity(state_dir)
    ledger = open_journal().recover("main").ledger
    waiting = [due.body.decode() for due in ledger.outbox.next_due(10, float("inf"))]
    assert len(waiting) == len(bodies)
    assert all(text in body for text, body in zip(bodies, waiting, strict=True))
    assert ledger.last_event_id == event_id
    again = ledger.admit(CALL, effects=True, event_id="7")
    assert (again.standing, again.record.state) == (standing, state)


WORK = """
async def handle(ledger, number):
    tool_id = f"t-{number}"
    effects = number % 3 != 0
    if ledger.admit(call(tool_id), effects=effects, event_id=str(number)).standing.value != "new":
        return
    ledger.decide(tool_id, RUN)
    await ledger.begin(tool_id)
    if effects:
        os.write(1, f"began {tool_id}\\n".encode())
    await ledger.finish(tool_id, CallState.COMPLETED, tool_id.encode())
    if effects:
        os.write(1, f"finished {tool_id}\\n".encode())

async def main():
    from client_agent.journal.audit import AuditEntry
    from datetime import UTC, datetime
    journal = Journal(Path(sys.argv[1]))
    ledger = journal.recover("main").ledger
    number = int(sys.argv[2])
    while True:
        for each in range(8):
            now = datetime.now(UTC)
            journal.note(AuditEntry(time=now, operation="WRITE", status="success", tool_id=str(number + each)))
        await asyncio.gather(*(handle(ledger, number + each) for each in range(8)))
        number += 8
asyncio.run(main())
"""


def test_kills_at_no_particular_moment_lose_nothing_that_was_promised(
    open_journal: OpenJournal, start_child: StartChild, state_dir: Path
) -> None:
    chance = random.Random(7)
    began: set[str] = set()
    finished: set[str] = set()
    interrupted: set[str] = set()
    for round_number in range(8):
        child = start_child(WORK, state_dir, 100_000 * round_number)
        assert child.stdout is not None
        for _ in range(chance.randrange(1, 60)):
            _note_line(child.stdout.readline(), began, finished)
        child.kill()
        rest, errors = child.communicate(timeout=30)
        assert errors == ""
        for line in rest.splitlines(keepends=True):
            _note_line(line, began, finished)
        check_integrity(state_dir)
        journal = open_journal()
        interrupted |= {record.tool_id for record in journal.recover("main").settled}
        journal.close()
    assert began
    assert not interrupted & finished

    journal = open_journal()
    ledger = journal.recover("main").ledger
    waiting = {due.post.target: due.body for due in ledger.outbox.next_due(1_000_000, float("inf"))}
    for tool_id in began:
        record = ledger.find(tool_id)
        assert record is not None
        assert record.state is (CallState.FAILED if tool_id in interrupted else CallState.COMPLETED)
        assert tool_id in waiting
    for tool_id in finished:
        assert waiting[tool_id] == tool_id.encode()
    outcome = verify(state_dir, journal.reader.audit_head())
    assert (outcome.problem, outcome.torn) == (None, None)
    assert outcome.entries > 0


def _note_line(line: str, began: set[str], finished: set[str]) -> None:
    if line.endswith("\n"):
        word, tool_id = line.split()
        (began if word == "began" else finished).add(tool_id)
