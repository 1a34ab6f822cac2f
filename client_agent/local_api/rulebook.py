"""Rules as the page and the commands change them: checked, stored, and tried on what was recorded."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import msgspec

from client_agent.approvals.honest import reveal
from client_agent.approvals.permissions import Permissions
from client_agent.errors import JournalError, UserError
from client_agent.journal.reader import reading
from client_agent.journal.records import CallRecord
from client_agent.local_api.shown import show_rule
from client_agent.policy.decision import Risk
from client_agent.policy.paths import inspect_spelling
from client_agent.policy.presets import PRESETS, Preset, find_preset
from client_agent.policy.rules import Rule, RuleDraft, Subject, check_draft, select_matching
from client_agent.protocol.tools import find_spec

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
    return show_rule(keep_rule(permissions, draft))


def keep_rule(permissions: Permissions, draft: RuleDraft) -> Rule:
    """The rule as it is kept from now on. Raises RuleError for one that cannot be meant so."""
    now = time.time()
    check_draft(draft, now)
    rule = Rule(**msgspec.structs.asdict(draft), id=uuid.uuid4().hex[:12], created_at=now, updated_at=now)
    permissions.rule_store.add(rule)
    return rule


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
    return [
        {
            "name": preset.name,
            "title": preset.title,
            "rules": len(preset.rules),
            "on": bool(_made_by(preset, permissions)),
        }
        for preset in PRESETS
    ]


def switch_preset(permissions: Permissions, name: str, *, on: bool) -> int:
    """Puts the preset's rules in force, or takes them away; how many that were."""
    preset = find_preset(name)
    if preset is None:
        known = ", ".join(each.name for each in PRESETS)
        raise UserError(f"there is no preset {name!r}; there are: {known}", code="preset_unknown")
    standing = _made_by(preset, permissions)
    for rule in standing:
        permissions.rule_store.remove(rule.id)
    for draft in preset.rules if on else ():
        keep_rule(permissions, draft)
    return len(preset.rules if on else standing)


def _made_by(preset: Preset, permissions: Permissions) -> list[Rule]:
    """The standing rules that are the preset's, and not a person's own."""
    names = RuleDraft.__struct_fields__
    return [
        rule
        for rule in permissions.rules.rules
        if any(all(getattr(rule, name) == getattr(draft, name) for name in names) for draft in preset.rules)
    ]


def preview_rule(state_dir: Path, draft: RuleDraft) -> dict[str, Any]:
    """Which of the recorded calls the rule would match. Blocking: it reads the journal."""
    now = time.time()
    rule = Rule(**msgspec.structs.asdict(draft), id="(new)", created_at=now, updated_at=now)
    subjects = [subject for _, subject in read_history(state_dir, PREVIEWED_CALLS)]
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


def read_history(state_dir: Path, limit: int) -> list[tuple[CallRecord, Subject]]:
    """The latest recorded calls as rules see them, at the risk they had then; refused ones no rule can change."""
    try:
        with reading(state_dir) as reader:
            records = reader.recent_calls(limit=limit)
    except JournalError:
        return []
    seen = ((record, _to_subject(record)) for record in records)
    return [(record, subject) for record, subject in seen if subject is not None]


def _to_subject(record: CallRecord) -> Subject | None:
    spec = find_spec(record.tool_name)
    if spec is None or not record.params or record.risk is None or record.verdict == "refuse":
        return None
    command, path = record.params.get("command"), record.params.get("path")
    return Subject(
        tool_name=spec.name,
        server_id=spec.server_id,
        risk=Risk[record.risk],
        argv=() if command is None else (command, *record.params.get("args", ())),
        path=None if path is None else inspect_spelling(path).relative or path,
    )
