from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from client_agent.errors import JournalError, UserError
from client_agent.journal.database import PERMISSIONS
from client_agent.journal.grants import GrantKind, GrantStore, StoredGrant
from client_agent.journal.permissions import PermissionFile
from client_agent.journal.rules import RuleStore
from client_agent.policy.decision import Risk
from client_agent.policy.rules import Rule

StartChild = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def file(state_dir: Path) -> Iterator[PermissionFile]:
    opened = PermissionFile(state_dir)
    yield opened
    opened.close()


def make_rule(rule_id: str, priority: int = 0, **fields: object) -> Rule:
    values = {"auto_approve": True, "created_at": 1.0, "updated_at": 1.0, **fields}
    return Rule(id=rule_id, priority=priority, **values)  # type: ignore[arg-type]


def make_grant(grant_id: str, **fields: object) -> StoredGrant:
    values = {"workspace": "main", "session_id": "s-1", "kind": GrantKind.CLASS, "command_class": "git commit"}
    return StoredGrant(id=grant_id, max_risk=Risk.MEDIUM, created_at=1.0, **{**values, **fields})  # type: ignore[arg-type]


def test_a_rule_comes_back_as_it_went_in(file: PermissionFile, state_dir: Path) -> None:
    rules = RuleStore(file)
    rule = make_rule(
        "r-1",
        7,
        server_id="shell",
        tool_name="execute_command",
        tool_pattern="exec*",
        argument_pattern="git log*",
        auto_approve=False,
        max_risk=Risk.HIGH,
        expires_at=99.5,
        note="for the release",
    )
    rules.add(rule)
    rules.add(make_rule("r-2"))
    assert rules.find("r-1") == rule
    assert rules.find("r-2") == make_rule("r-2")
    assert rules.find("r-3") is None
    assert stat.S_IMODE((state_dir / "permissions.sqlite3").stat().st_mode) == 0o600


def test_rules_are_listed_by_priority_then_newest_first(file: PermissionFile) -> None:
    rules = RuleStore(file)
    for rule_id, priority in (("low", 1), ("older", 5), ("newer", 5), ("high", 9)):
        rules.add(make_rule(rule_id, priority))
    assert [rule.id for rule in rules.list()] == ["high", "newer", "older", "low"]


def test_a_rule_is_changed_and_removed(file: PermissionFile) -> None:
    rules = RuleStore(file)
    rules.add(make_rule("r-1"))
    changed = msgspec.structs.replace(make_rule("r-1", 3), note="changed", auto_approve=False, updated_at=2.0)
    rules.update(changed)
    assert rules.list() == [changed]
    rules.remove("r-1")
    assert rules.list() == []


def test_a_rule_that_exists_or_does_not_is_the_users_error(file: PermissionFile) -> None:
    rules = RuleStore(file)
    rules.add(make_rule("r-1"))
    with pytest.raises(UserError, match="already a rule"):
        rules.add(make_rule("r-1"))
    with pytest.raises(UserError, match="no rule 'r-9'"):
        rules.update(make_rule("r-9"))
    with pytest.raises(UserError, match="no rule 'r-9'"):
        rules.remove("r-9")


def test_a_change_made_by_another_process_is_seen_at_once(
    file: PermissionFile, start_child: StartChild, state_dir: Path
) -> None:
    assert file.changed()
    assert not file.changed()
    script = """
    from client_agent.journal.permissions import PermissionFile
    from client_agent.journal.rules import RuleStore
    from client_agent.policy.rules import Rule
    file = PermissionFile(Path(sys.argv[1]))
    RuleStore(file).add(Rule(id="theirs", auto_approve=True, created_at=1, updated_at=1))
    file.close()
    """
    child = start_child(script, state_dir)
    assert child.communicate(timeout=30) == ("", "")
    assert file.changed()
    assert not file.changed()
    assert [rule.id for rule in RuleStore(file).list()] == ["theirs"]


def test_a_change_of_ones_own_is_seen_too(file: PermissionFile) -> None:
    file.changed()
    RuleStore(file).add(make_rule("r-1"))
    assert file.changed()
    RuleStore(file).list()
    assert not file.changed()


def test_grants_hold_until_they_expire_are_revoked_or_their_session_ends(file: PermissionFile) -> None:
    grants = GrantStore(file)
    grants.add(make_grant("lasting"))
    grants.add(make_grant("short", expires_at=50.0, kind=GrantKind.EVERYTHING, command_class=None))
    grants.add(make_grant("elsewhere", workspace="other"))
    assert [grant.id for grant in grants.list(now=10)] == ["elsewhere", "short", "lasting"]
    assert grants.list(now=10, workspace="main")[1] == make_grant("lasting")
    assert [grant.id for grant in grants.list(now=50, workspace="main")] == ["lasting"]
    assert grants.revoke("elsewhere", now=20)
    assert not grants.revoke("elsewhere", now=21)
    assert not grants.revoke("unknown", now=21)
    assert grants.end_session("main", "s-1", now=30) == 2
    assert grants.list(now=31) == []
    assert grants.prune(before=25) == 1
    assert grants.prune(before=100) == 2


def test_a_damaged_file_is_left_where_it_is_for_the_user_to_decide(state_dir: Path) -> None:
    PermissionFile(state_dir).close()
    path = state_dir / "permissions.sqlite3"
    path.write_bytes(b"x" * 5000)
    with pytest.raises(JournalError, match="move it away") as damaged:
        PermissionFile(state_dir)
    assert damaged.value.code == "permissions_damaged"
    assert path.read_bytes() == b"x" * 5000


def test_a_file_of_a_newer_program_is_refused(state_dir: Path) -> None:
    import contextlib
    import sqlite3

    PermissionFile(state_dir).close()
    with contextlib.closing(sqlite3.connect(state_dir / "permissions.sqlite3")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(JournalError) as refused:
        PermissionFile(state_dir)
    assert refused.value.code == "downgrade"


@pytest.mark.parametrize("long_ago", [False, True])
def test_a_change_is_seen_however_long_ago_the_last_one_was(
    file: PermissionFile, state_dir: Path, long_ago: bool
) -> None:
    RuleStore(file).add(make_rule("r-1"))
    if long_ago:
        os.utime(f"{state_dir / PERMISSIONS.file_name}-wal", (1, 1))
    assert file.changed()
    assert not file.changed()
    assert not file.changed()
    with contextlib.closing(PermissionFile(state_dir)) as other:
        RuleStore(other).add(make_rule("r-2"))
        assert file.changed()
        assert not file.changed()
