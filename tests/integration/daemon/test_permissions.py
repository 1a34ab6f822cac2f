"""Rules and grants, in force for the next call."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path

import pytest

from client_agent.approvals.permissions import Permissions
from client_agent.approvals.questions import Answer, Outcome, Scope
from client_agent.policy.decision import Risk
from client_agent.policy.rules import Rule
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
    assert text.count("[WRITE]") >= 3
    assert (world.state / "audit.jsonl").stat().st_mode & 0o077 == 0
    assert records["write_file"].approver == "person"
