from __future__ import annotations

from collections.abc import Callable

import pytest

from client_agent.journal.journal import Journal
from client_agent.journal.ledger import Ledger
from client_agent.journal.records import PostKind, Standing
from client_agent.policy.decision import Decision, Reason, Risk, Verdict
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState

OpenJournal = Callable[..., Journal]
RUN = Decision(verdict=Verdict.RUN, risk=Risk.LOW, reasons=(Reason("a", "b"),), code="test")
DAY = 86_400.0


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def make_call(tool_id: str) -> Call:
    return Call(tool_id=tool_id, tool_name="write_file", tool_params={"path": tool_id}, approval_id=f"ap-{tool_id}")


async def carry_out(ledger: Ledger, tool_id: str, *, effects: bool, body: bytes = b"body") -> None:
    ledger.admit(make_call(tool_id), effects=effects)
    ledger.decide(tool_id, RUN)
    await ledger.begin(tool_id)
    await ledger.finish(tool_id, CallState.COMPLETED, body)


def deliver(ledger: Ledger) -> None:
    for due in ledger.outbox.next_due(10_000, float("inf")):
        ledger.outbox.mark_delivered(due.post.kind, due.post.target)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(open_journal: OpenJournal, clock: Clock) -> Journal:
    return open_journal(now=clock)


@pytest.fixture
def ledger(journal: Journal) -> Ledger:
    return journal.recover("main").ledger


async def test_old_calls_are_forgotten_and_young_ones_kept(journal: Journal, ledger: Ledger, clock: Clock) -> None:
    await carry_out(ledger, "old", effects=False)
    clock.now += 40 * DAY
    await carry_out(ledger, "young", effects=False)
    deliver(ledger)
    journal.flush()
    assert (await journal.prune(max_age_days=30)).calls == 1
    assert journal.reader.call("main", "old") is None
    assert journal.reader.post("main", PostKind.RESULT, "old") is None
    assert journal.reader.call("main", "young") is not None
    assert (await journal.prune(max_age_days=30)).calls == 0


async def test_what_is_unfinished_undelivered_or_dead_is_never_forgotten(
    journal: Journal, ledger: Ledger, clock: Clock
) -> None:
    ledger.admit(make_call("open"), effects=True)
    for name in ("waiting", "dead", "answered"):
        await carry_out(ledger, name, effects=False)
    ledger.outbox.mark_dead(PostKind.RESULT, "dead", "403")
    ledger.outbox.mark_delivered(PostKind.RESULT, "answered")
    ledger.refuse("refused", b"malformed")
    with ledger._writer.lock:
        ledger.outbox.put(PostKind.APPROVE, "ap-answered", b"yes")
    journal.flush()
    clock.now += 400 * DAY
    assert (await journal.prune(max_age_days=1, max_bytes=1)).calls == 0
    assert len(journal.reader.recent_calls()) == 4
    assert {post.target for post in journal.reader.posts_not_delivered()} == {
        "waiting",
        "dead",
        "ap-answered",
        "refused",
    }


async def test_a_call_with_effects_stays_known_when_its_details_are_gone(
    journal: Journal, ledger: Ledger, clock: Clock
) -> None:
    await carry_out(ledger, "t-1", effects=True)
    deliver(ledger)
    journal.flush()
    clock.now += 40 * DAY
    assert (await journal.prune(max_age_days=30)).calls == 1
    record = journal.reader.call("main", "t-1")
    assert record is not None
    assert (record.params, record.reasons) == (None, ())
    again = ledger.admit(make_call("t-1"), effects=True)
    assert (again.standing, again.record.state) == (Standing.FINISHED, CallState.COMPLETED)
    [due] = ledger.outbox.next_due(10, float("inf"))
    assert b"result_forgotten" in due.body
    other = Call(tool_id="t-1", tool_name="write_file", tool_params={"path": "other"})
    assert ledger.admit(other, effects=True).standing is Standing.CONFLICT


async def test_settled_refusals_are_forgotten_too(journal: Journal, ledger: Ledger, clock: Clock) -> None:
    ledger.refuse("t-1", b"malformed")
    deliver(ledger)
    journal.flush()
    clock.now += 40 * DAY
    await journal.prune(max_age_days=30)
    assert journal.reader.post("main", PostKind.REFUSAL, "t-1") is None


async def test_a_journal_over_its_size_forgets_the_oldest_and_shrinks(
    journal: Journal, ledger: Ledger, clock: Clock
) -> None:
    for number in range(600):
        clock.now += 1
        await carry_out(ledger, f"t-{number}", effects=False)
    journal.flush()
    deliver(ledger)
    journal.flush()
    clock.now += 1
    pruned = await journal.prune(max_age_days=30, max_bytes=150_000)
    assert 0 < pruned.calls < 600
    assert pruned.used_bytes <= 150_000
    left = [record.tool_id for record in journal.reader.recent_calls(limit=1000)]
    assert left == [f"t-{number}" for number in reversed(range(pruned.calls, 600))]
