"""Rules and grants, in force for the next call."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from client_agent.approvals.permissions import Permissions
from client_agent.approvals.questions import Answer, Outcome, Scope
from client_agent.policy.decision import CallClass, Decision, Risk, Verdict
from client_agent.policy.rules import Rule
from client_agent.protocol.calls import Call
from tests.integration.daemon.conftest import World


def rule(rule_id: str, **fields: object) -> Rule:
    now = time.time()
    return Rule(id=rule_id, created_at=now, updated_at=now, **fields)  # type: ignore[arg-type]


@pytest.fixture
def permissions(world: World) -> object:
    with closing(Permissions(world.state)) as opened:
        yield opened


async def test_a_rule_added_while_the_daemon_runs_holds_for_the_next_call(
    world: World, permissions: Permissions
) -> None:
    async with world.running_daemon():
        await world.execute("write_file", path="a.md", content="1")
        assert len(world.person.asked) == 1
        permissions.rule_store.add(rule("r1", auto_approve=True, tool_name="write_file"))
        await world.execute("write_file", path="b.md", content="2")
        assert len(world.person.asked) == 1
        response = await world.execute("write_file", path="c.sh", content="3")
        assert len(world.person.asked) == 2, "MEDIUM is the most that a rule approves unless it says HIGH"
        assert response["status"] == "completed"
        permissions.rule_store.remove("r1")
        await world.execute("write_file", path="d.md", content="4")
        assert len(world.person.asked) == 3


async def test_a_rule_can_have_a_read_asked_and_never_overrides_a_refusal(
    world: World, permissions: Permissions
) -> None:
    (world.root / "a.txt").write_text("x")
    (world.root / "link").symlink_to("/etc")
    permissions.rule_store.add(rule("ask", auto_approve=False, tool_name="read_file", argument_pattern="a.txt"))
    permissions.rule_store.add(rule("yes", auto_approve=True, priority=-1, max_risk=Risk.HIGH))
    async with world.running_daemon():
        assert (await world.execute("read_file", path="a.txt"))["status"] == "completed"
        assert len(world.person.asked) == 1
        assert (await world.execute("read_file", path="link/passwd"))["status"] == "failed"


async def test_a_class_granted_for_the_session_is_not_asked_again(world: World) -> None:
    world.person.says = Answer(outcome=Outcome.APPROVED, scope=Scope.CLASS, by="person")
    async with world.running_daemon():
        for name in ("a.py", "b.py"):
            assert (await world.execute("write_file", path=name, content="x"))["status"] == "completed"
        assert len(world.person.asked) == 1
        await world.execute("write_file", path="c.sh", content="x")
        assert len(world.person.asked) == 2, "another class"
        await world.execute("write_file", "another session", path="d.py", content="x")
        assert len(world.person.asked) == 3, "another session"
    async with world.running_daemon():
        await world.execute("write_file", path="e.py", content="x")
        assert len(world.person.asked) == 4, "grants end with the daemon"


async def test_a_revoked_grant_is_asked_again(world: World, permissions: Permissions) -> None:
    world.person.says = Answer(outcome=Outcome.APPROVED, scope=Scope.SESSION, by="person")
    async with world.running_daemon():
        await world.execute("write_file", path="a.sh", content="x")
        await world.execute("write_file", path="b.py", content="x")
        assert len(world.person.asked) == 1
        (grant,) = permissions.grant_store.list(now=time.time())
        permissions.grant_store.revoke(grant.id, now=time.time())
        await world.execute("write_file", path="c.py", content="x")
        assert len(world.person.asked) == 2


async def test_a_grant_never_beats_a_rule_that_asks_or_its_own_end(world: World, permissions: Permissions) -> None:
    world.person.says = Answer(outcome=Outcome.APPROVED, scope=Scope.SESSION, by="person")
    permissions.rule_store.add(rule("ask", auto_approve=False, tool_name="write_file", argument_pattern="*.lock"))
    async with world.running_daemon():
        await world.execute("write_file", path="a.py", content="x")
        await world.execute("write_file", path="b.lock", content="x")
        assert len(world.person.asked) == 2


async def test_every_decision_is_in_the_audit_log_and_the_log_verifies(world: World, tmp_path: Path) -> None:
    from client_agent.journal.reader import reading
    from client_agent.journal.verification import verify

    (world.root / "a.txt").write_text("x")
    async with world.running_daemon():
        await world.execute("read_file", path="a.txt")
        await world.execute("write_file", path="b.md", content="x")
        world.person.says = Answer(outcome=Outcome.REJECTED, reason="no", by="person")
        await world.execute("write_file", path="c.md", content="x")
        (world.root / "out").symlink_to("/etc")
        await world.execute("read_file", path="out/passwd")
        await asyncio.sleep(0)
    with reading(world.state) as reader:
        outcome = verify(world.state, reader.audit_head())
        records = {record.tool_name: record for record in reader.recent_calls()}
    assert outcome.problem is None
    text = (world.state / "audit.log").read_text()
    assert "[READ]" in text
    assert "status=success" in text
    assert "status=denied" in text
    assert "path=out/passwd" in next(line for line in text.splitlines() if "code=path_outside" in line)
    assert "status=denied" in next(line for line in text.splitlines() if "code=path_outside" in line)
    assert text.count("[WRITE]") >= 3
    assert (world.state / "audit.jsonl").stat().st_mode & 0o077 == 0
    assert records["write_file"].approver == "person"


async def test_a_grant_holds_for_the_time_that_was_said_and_no_longer(world: World) -> None:
    said = Answer(outcome=Outcome.APPROVED, scope=Scope.CLASS, for_s=600.0, by="person")
    clock = [1000.0]
    call = Call(tool_id="t", tool_name="write_file", tool_params={}, session_id="s")
    decision = Decision(
        verdict=Verdict.ASK,
        risk=Risk.MEDIUM,
        reasons=(),
        code="needs_approval",
        call_class=CallClass(label="write_file *.py", risk=Risk.MEDIUM),
    )
    with closing(Permissions(world.state, now=lambda: clock[0])) as permissions:
        short = permissions.grant("w", call, decision, said)
        assert permissions.apply("w", call, decision).code == "granted"
        clock[0] += 600
        assert permissions.apply("w", call, decision).verdict is Verdict.ASK
        long = permissions.grant("w", call, decision, msgspec.structs.replace(said, for_s=1e6))
        usual = permissions.grant("w", call, decision, msgspec.structs.replace(said, for_s=None))
    assert [grant.expires_at for grant in (short, long, usual) if grant] == [1600, 30_400, 30_400]


async def test_rules_that_change_while_the_question_is_open_have_it_asked_again(
    world: World, permissions: Permissions
) -> None:
    world.person.says = None
    async with world.running_daemon():
        asking = asyncio.create_task(world.execute("write_file", path="a.md", content="x"))
        async with asyncio.timeout(20):
            await world.person.was_asked.wait()
            world.person.was_asked.clear()
            permissions.rule_store.add(rule("r1", auto_approve=False, tool_pattern="delete_*"))
            world.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
            await world.person.was_asked.wait()
        first, second = world.person.asked
        assert (first.again, second.again) == (False, True)
        assert (first.decision, first.rules != second.rules) == (second.decision, True)
        assert not (world.root / "a.md").exists()
        assert not world.broker.answer(second.id, first.binding, Answer(outcome=Outcome.APPROVED))
        world.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
        assert (await asking)["status"] == "completed"


async def test_what_need_not_be_asked_any_more_when_it_is_answered_is_recorded_as_it_was_decided_last(
    world: World, permissions: Permissions
) -> None:
    world.person.says = None
    async with world.running_daemon() as daemon:
        asking = asyncio.create_task(world.execute("write_file", path="a.md", content="x"))
        async with asyncio.timeout(20):
            await world.person.was_asked.wait()
        permissions.rule_store.add(rule("r1", auto_approve=True, tool_name="write_file"))
        world.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
        response = await asking
        record = daemon.workspaces["w"]._ledger.find(response["tool_id"])
    assert response["status"] == "completed"
    assert record is not None
    assert (record.verdict, record.rule_id, record.approver) == ("run", "r1", "person")


async def test_a_command_that_was_allowed_is_asked_about_again_with_an_option_that_does_more(world: World) -> None:
    world.person.says = Answer(outcome=Outcome.APPROVED, scope=Scope.CLASS, by="person")
    async with world.running_daemon():
        await world.execute("execute_command", command="git", args=["log"])
        await world.execute("execute_command", command="git", args=["log"])
        assert len(world.person.asked) == 1
        world.person.says = Answer(outcome=Outcome.REJECTED, by="person")
        response = await world.execute("execute_command", command="git", args=["log", "--output=x"])
        assert (len(world.person.asked), response["status"]) == (2, "rejected")
        assert not (world.root / "x").exists()
