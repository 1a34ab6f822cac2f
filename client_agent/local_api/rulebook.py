"""Rules as the page and the commands change them: checked, stored, and tried on what was recorded."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import msgspec

from client_agent import config
from client_agent.approvals.honest import reveal
from client_agent.approvals.permissions import Permissions
from client_agent.errors import JournalError, UserError
from client_agent.journal.reader import reading
from client_agent.local_api.shown import show_rule
from client_agent.policy.decision import Risk
from client_agent.policy.judge import Judge
from client_agent.policy.paths import inspect_spelling
from client_agent.policy.presets import PRESETS, find_preset
from client_agent.policy.rules import Rule, RuleDraft, Subject, check_draft, select_matching
from client_agent.protocol.calls import Call

PREVIEWED_CALLS = 2_000
MAX_EXAMPLES = 12


def read_draft(given: dict[str, Any]) -> RuleDraft:
    """What a person filled in; empty fields match everything. Raises RuleError or UserError."""
    values = {name: value for name, value in given.items() if value not in ("", None)}
    if "max_risk" in values:
        values["max_risk"] = Risk.__members__.get(str(values["max_risk"]), values["max_risk"])
    try:
        draft = msgspec.convert(values, RuleDraft)
    except msgspec.ValidationError as error:
        raise UserError(f"not a rule: {error}", code="rule_invalid") from None
    check_draft(draft, time.time())
    return draft


def add_rule(permissions: Permissions, draft: RuleDraft) -> dict[str, Any]:
    now = time.time()
    rule = Rule(**msgspec.structs.asdict(draft), id=uuid.uuid4().hex[:12], created_at=now, updated_at=now)
    permissions.rule_store.add(rule)
    return show_rule(rule)


def edit_rule(permissions: Permissions, rule_id: str, draft: RuleDraft) -> dict[str, Any]:
    old = permissions.rule_store.find(rule_id)
    if old is None:
        raise UserError("this rule is no longer there", code="rule_unknown")
    changed = Rule(
        **msgspec.structs.asdict(draft), id=old.id, created_at=old.created_at, updated_at=time.time()
    )  # fmt: skip
    permissions.rule_store.update(changed)
    return show_rule(changed)


def list_presets(permissions: Permissions) -> list[dict[str, Any]]:
    notes = {rule.note for rule in permissions.rules.rules}
    return [
        {"name": preset.name, "title": preset.title, "rules": len(preset.rules), "on": preset.name in notes}
        for preset in PRESETS
    ]


def switch_preset(permissions: Permissions, name: str, *, on: bool) -> None:
    preset = find_preset(name)
    if preset is None:
        raise UserError(f"there is no preset {name!r}", code="preset_unknown")
    for rule in permissions.rules.rules:
        if rule.note == name:
            permissions.rule_store.remove(rule.id)
    for draft in preset.rules if on else ():
        add_rule(permissions, draft)


def preview_rule(state_dir: Path, draft: RuleDraft) -> dict[str, Any]:
    """Which of the recorded calls the rule would match. Blocking: it reads the journal."""
    now = time.time()
    rule = Rule(**msgspec.structs.asdict(draft), id="(new)", created_at=now, updated_at=now)
    subjects = _recorded_subjects(state_dir)
    matched = select_matching(rule, subjects, now)
    examples = list(dict.fromkeys(reveal(f"{subject.tool_name} {subject.text}") for subject in matched))
    exceeded = sum(subject.risk > rule.max_risk for subject in matched) if rule.auto_approve else 0
    return {
        "recorded": len(subjects),
        "matches": len(matched),
        "too_risky": exceeded,
        "examples": examples[:MAX_EXAMPLES],
        "more": max(0, len(examples) - MAX_EXAMPLES),
    }


def _recorded_subjects(state_dir: Path) -> list[Subject]:
    judge = Judge(config.Workspace(root="/", project_id="-", server="http://127.0.0.1"))
    try:
        with reading(state_dir) as reader:
            records = reader.recent_calls(limit=PREVIEWED_CALLS)
    except JournalError:
        return []
    calls = (Call(tool_id=r.tool_id, tool_name=r.tool_name, tool_params=r.params or {}) for r in records)
    subjects = (judge.find_subject(call, inspect_spelling) for call in calls)
    return [subject for subject in subjects if subject is not None]
