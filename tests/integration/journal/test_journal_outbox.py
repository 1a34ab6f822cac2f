from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from client_agent.journal.journal import Journal
from client_agent.journal.ledger import Ledger
from client_agent.journal.outbox import MAX_KEPT, MAX_KEPT_BYTES, Outbox
from client_agent.journal.reader import Reader, reading
from client_agent.journal.records import PostKind, PostState
from client_agent.policy.decision import Decision, Risk, Verdict
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState

OpenJournal = Callable[..., Journal]
RUN = Decision(verdict=Verdict.RUN, risk=Risk.LOW, reasons=(), code="test")
RESULT = PostKind.RESULT


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def produce(ledger: Ledger, tool_id: str, body: bytes = b"body", *, effects: bool = False) -> None:
    ledger.admit(Call(tool_id=tool_id, tool_name="read_file", tool_params={}), effects=effects)
    ledger.decide(tool_id, RUN)
    await ledger.begin(tool_id)
    await ledger.finish(tool_id, CallState.COMPLETED, body)


def take(outbox: Outbox, now: float = float("inf"), limit: int = 100) -> list[str]:
    return [due.post.target for due in outbox.next_due(limit, now)]


async def test_the_oldest_goes_first_and_each_is_taken_once(open_journal: OpenJournal) -> None:
    ledger = open_journal(now=Clock()).recover("main").ledger
    for number in range(5):
        await produce(ledger, f"t-{number}")
    assert take(ledger.outbox, limit=2) == ["t-0", "t-1"]
    assert take(ledger.outbox) == ["t-2", "t-3", "t-4"]
    assert take(ledger.outbox) == []
    assert len(ledger.outbox) == 5


async def test_a_result_just_stored_is_sent_without_being_read_back(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    body = Reader.body
    monkeypatch.setattr(Reader, "body", lambda self, post: read.append(post.target) or body(self, post))
    ledger = open_journal(now=Clock()).recover("main").ledger
    await produce(ledger, "t-0", effects=True)
    [due] = ledger.outbox.next_due(10, 1000)
    assert (due.body, read) == (b"body", [])
    ledger.outbox.mark_retry(RESULT, "t-0", at=0, problem="503")
    [due] = ledger.outbox.next_due(10, 1000)
    assert (due.body, read) == (b"body", ["t-0"])  # a long outage costs no memory


async def test_of_many_results_that_wait_only_a_few_small_ones_are_kept_in_memory(open_journal: OpenJournal) -> None:
    ledger = open_journal(now=Clock()).recover("main").ledger
    bodies = {"large": b"x" * (MAX_KEPT_BYTES + 1)} | {f"t-{number}": b"%d" % number for number in range(MAX_KEPT + 10)}
    for tool_id, body in bodies.items():
        await produce(ledger, tool_id, body, effects=True)
    kept = [slot.post.target for slot in ledger.outbox._slots.values() if slot.body is not None]
    assert kept == list(bodies)[1:MAX_KEPT]
    assert {due.post.target: due.body for due in ledger.outbox.next_due(100, 1000)} == bodies
    assert not any(slot.body for slot in ledger.outbox._slots.values())


async def test_one_that_must_wait_holds_up_no_other(open_journal: OpenJournal) -> None:
    clock = Clock()
    ledger = open_journal(now=clock).recover("main").ledger
    await produce(ledger, "t-0")
    await produce(ledger, "t-1")
    assert take(ledger.outbox, clock.now) == ["t-0", "t-1"]
    ledger.outbox.mark_retry(RESULT, "t-0", at=clock.now + 60, problem="503")
    ledger.outbox.mark_delivered(RESULT, "t-1")
    await produce(ledger, "t-2")
    assert take(ledger.outbox, clock.now) == ["t-2"]
    assert ledger.outbox.wait_s(clock.now) == 60
    [due] = ledger.outbox.next_due(10, clock.now + 60)
    assert (due.post.target, due.post.attempts, due.post.problem, due.body) == ("t-0", 1, "503", b"body")


async def test_one_that_was_not_attempted_says_why_and_counts_for_nothing(open_journal: OpenJournal) -> None:
    ledger = open_journal().recover("main").ledger
    await produce(ledger, "t-0")
    take(ledger.outbox)
    ledger.outbox.mark_retry(RESULT, "t-0", at=0, problem="401", attempted=False)
    assert [(due.post.attempts, due.post.problem) for due in ledger.outbox.next_due(1, 1)] == [(0, "401")]


async def test_what_waits_survives_a_restart_in_its_order_and_is_due_at_once(open_journal: OpenJournal) -> None:
    clock = Clock()
    journal = open_journal(now=clock)
    ledger = journal.recover("main").ledger
    for number in range(4):
        await produce(ledger, f"t-{number}", f"body {number}".encode(), effects=number == 2)
    take(ledger.outbox)
    ledger.outbox.mark_delivered(RESULT, "t-1")
    ledger.outbox.mark_retry(RESULT, "t-0", at=clock.now + 1e9, problem="no route")
    journal.close()
    outbox = open_journal(now=clock).recover("main").ledger.outbox
    found = outbox.next_due(10, clock.now)
    assert [(due.post.target, due.body) for due in found] == [
        ("t-0", b"body 0"),
        ("t-2", b"body 2"),
        ("t-3", b"body 3"),
    ]
    assert (found[0].post.attempts, found[0].post.problem) == (1, "no route")


async def test_a_dead_letter_is_shown_and_not_tried_until_somebody_says_so(
    open_journal: OpenJournal, state_dir: Path
) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    await produce(ledger, "t-0")
    await produce(ledger, "t-1")
    take(ledger.outbox)
    ledger.outbox.mark_dead(RESULT, "t-0", "404: no such call")
    ledger.outbox.mark_delivered(RESULT, "t-1")
    journal.close()

    journal = open_journal()
    outbox = journal.recover("main").ledger.outbox
    assert take(outbox) == []
    with reading(state_dir) as reader:
        [dead] = reader.posts_not_delivered()
        assert (dead.target, dead.state, dead.problem, dead.attempts) == ("t-0", PostState.DEAD, "404: no such call", 1)
        assert reader.posts_not_delivered(workspace="other") == []
    assert outbox.retry(RESULT, "t-0")
    assert [due.body for due in outbox.next_due(10, float("inf"))] == [b"body"]
    assert not outbox.retry(RESULT, "t-9")


@pytest.mark.parametrize("stored", [True, False])
async def test_one_that_is_dropped_is_gone_for_good(open_journal: OpenJournal, stored: bool) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    await produce(ledger, "t-0")
    await produce(ledger, "t-1")
    if stored:
        journal.flush()
    assert ledger.outbox.drop(RESULT, "t-0")
    assert not ledger.outbox.drop(RESULT, "t-0")
    assert not ledger.outbox.drop(RESULT, "t-9")
    assert take(ledger.outbox) == ["t-1"]
    ledger.outbox.mark_delivered(RESULT, "t-1")
    assert not ledger.outbox.drop(RESULT, "t-1")
    journal.close()
    assert take(open_journal().recover("main").ledger.outbox) == []


async def test_late_and_repeated_words_about_a_delivery_change_nothing(open_journal: OpenJournal) -> None:
    journal = open_journal()
    outbox = journal.recover("main").ledger.outbox
    outbox.mark_delivered(RESULT, "never heard of")
    ledger = journal.recover("second").ledger
    await produce(ledger, "t-0")
    journal.flush()
    ledger.outbox.mark_delivered(RESULT, "t-0")
    ledger.outbox.mark_delivered(RESULT, "t-0")
    ledger.outbox.mark_retry(RESULT, "t-0", at=0, problem="timeout")
    ledger.outbox.mark_dead(RESULT, "t-0", "late")
    assert take(ledger.outbox) == []
    journal.flush()
    assert journal.reader.post("second", RESULT, "t-0").state is PostState.DELIVERED  # type: ignore[union-attr]


async def test_an_acknowledgement_that_overtakes_the_sender_takes_the_post_out(open_journal: OpenJournal) -> None:
    ledger = open_journal().recover("main").ledger
    await produce(ledger, "t-0")
    await produce(ledger, "t-1")
    ledger.outbox.mark_delivered(RESULT, "t-0")
    assert take(ledger.outbox) == ["t-1"]
    ledger.outbox.mark_delivered(RESULT, "t-1")
    assert ledger.outbox.wait_s(0) is None


async def test_when_the_connection_is_back_everything_is_due(open_journal: OpenJournal) -> None:
    clock = Clock()
    ledger = open_journal(now=clock).recover("main").ledger
    for number in range(3):
        await produce(ledger, f"t-{number}")
    take(ledger.outbox)
    for number in (2, 0, 1):
        ledger.outbox.mark_retry(RESULT, f"t-{number}", at=clock.now + 60 + number, problem="reset")
    assert take(ledger.outbox, clock.now) == []
    ledger.outbox.hasten()
    assert sorted(take(ledger.outbox, clock.now)) == ["t-0", "t-1", "t-2"]


async def test_what_the_server_put_off_is_not_hastened(open_journal: OpenJournal) -> None:
    clock = Clock()
    ledger = open_journal(now=clock).recover("main").ledger
    await produce(ledger, "t-0")
    take(ledger.outbox)
    ledger.outbox.mark_retry(RESULT, "t-0", at=clock.now + 90, problem="429", not_before=clock.now + 60)
    ledger.outbox.hasten()
    assert take(ledger.outbox, clock.now + 59) == []
    assert take(ledger.outbox, clock.now + 60) == ["t-0"]


async def test_one_that_is_moved_forward_is_still_taken_only_once(open_journal: OpenJournal) -> None:
    clock = Clock()
    ledger = open_journal(now=clock).recover("main").ledger
    await produce(ledger, "t-0")
    take(ledger.outbox)
    ledger.outbox.mark_retry(RESULT, "t-0", at=clock.now + 60, problem="reset")
    assert ledger.outbox.retry(RESULT, "t-0")
    assert ledger.outbox.wait_s(clock.now) == 0
    assert take(ledger.outbox) == ["t-0"]
    assert take(ledger.outbox) == []


async def test_whoever_delivers_is_told_of_a_result_with_and_without_effects(open_journal: OpenJournal) -> None:
    ledger = open_journal().recover("main").ledger
    told = threading.Event()
    ledger.outbox.tell(told.set)
    for tool_id, effects in (("t-0", False), ("t-1", True)):
        await produce(ledger, tool_id, effects=effects)
        assert told.wait(10)
        assert take(ledger.outbox) == [tool_id]
        told.clear()
    ledger.outbox.hasten()
    assert told.is_set()
    told.clear()
    ledger.outbox.tell(None)
    await produce(ledger, "t-2")
    assert not told.is_set()


async def test_one_whose_body_is_gone_is_a_dead_letter_and_holds_up_no_other(
    open_journal: OpenJournal, state_dir: Path
) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    await produce(ledger, "t-0")
    await produce(ledger, "t-1")
    journal.flush()
    with contextlib.closing(sqlite3.connect(state_dir / "journal.sqlite3", isolation_level=None)) as other:
        other.execute("UPDATE posts SET body = NULL WHERE target = 't-0'")
    assert take(ledger.outbox) == ["t-1"]
    journal.flush()
    assert journal.reader.post("main", RESULT, "t-0").state is PostState.DEAD  # type: ignore[union-attr]


async def test_bodies_that_are_stored_take_no_memory(open_journal: OpenJournal) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    for number in range(20):
        await produce(ledger, f"t-{number}", b"x" * 100_000)
    journal.flush()
    assert [slot.body for slot in ledger.outbox._slots.values()] == [None] * 20
    assert [len(due.body) for due in ledger.outbox.next_due(20, float("inf"))] == [100_000] * 20
