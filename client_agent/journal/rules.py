"""Permission rules, stored. What they mean is decided in `policy`."""

from __future__ import annotations

from typing import Any

import msgspec

from client_agent.errors import UserError
from client_agent.journal.permissions import PermissionFile
from client_agent.journal.statements import load
from client_agent.policy.decision import Risk
from client_agent.policy.rules import Rule

_SQL = load("permissions")


class RuleStore:
    """Create, read, update, delete; in force for the next call of every process that asks `changed`."""

    def __init__(self, file: PermissionFile) -> None:
        self._file = file

    def add(self, rule: Rule) -> None:
        if self.find(rule.id) is not None:
            raise UserError(f"there is already a rule {rule.id!r}", code="rule_exists")
        self._file.write(_SQL["insert_rule"], _to_row(rule))

    def update(self, rule: Rule) -> None:
        """Put this in the place of the rule of the same id."""
        self._expect(self._file.write(_SQL["update_rule"], _to_row(rule)), rule.id)

    def remove(self, rule_id: str) -> None:
        self._expect(self._file.write(_SQL["delete_rule"], {"id": rule_id}), rule_id)

    def find(self, rule_id: str) -> Rule | None:
        rows = self._file.rows(_SQL["find_rule"], id=rule_id)
        return _from_row(rows[0]) if rows else None

    def list(self) -> list[Rule]:
        """All rules in the order in which they are tried: by priority, then the newest first."""
        return [_from_row(row) for row in self._file.rows(_SQL["list_rules"])]

    def _expect(self, touched: int, rule_id: str) -> None:
        if touched == 0:
            raise UserError(f"there is no rule {rule_id!r}: `client-agent rules list` shows them", code="rule_unknown")


def _to_row(rule: Rule) -> dict[str, object]:
    return msgspec.structs.asdict(rule) | {"max_risk": rule.max_risk.name}


def _from_row(row: Any) -> Rule:
    return msgspec.convert(dict(row) | {"max_risk": Risk[row["max_risk"]]}, Rule, strict=False)
