"""Grants and rules: what runs without being asked about."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from client_agent.local_api import rulebook
from client_agent.local_api.house import House
from client_agent.local_api.operations.operation import Args, ById, Nothing, Table
from client_agent.local_api.shown import show_grant, show_rule


class Draft(Args, frozen=True):
    rule: dict[str, Any]


class Edit(Args, frozen=True):
    id: str
    rule: dict[str, Any]


class Switch(Args, frozen=True):
    name: str
    on: bool


class PermissionOperations:
    def __init__(self, house: House) -> None:
        self._house = house
        self.table: Table = {
            "grants.list": (Nothing, self._list_grants),
            "grants.revoke": (ById, self._revoke),
            "rules.list": (Nothing, self._list_rules),
            "rules.add": (Draft, self._add_rule),
            "rules.edit": (Edit, self._edit_rule),
            "rules.remove": (ById, self._remove_rule),
            "rules.preview": (Draft, self._preview_rule),
            "rules.preset": (Switch, self._switch_preset),
        }

    def grants(self) -> dict[str, Any]:
        return {"grants": [show_grant(each) for each in self._house.permissions.grant_store.list(now=time.time())]}

    def rules(self) -> dict[str, Any]:
        permissions = self._house.permissions
        return {
            "rules": [show_rule(rule) for rule in permissions.rules.rules],
            "presets": rulebook.list_presets(permissions),
        }

    async def _list_grants(self, args: Nothing, by: str) -> Any:
        return self.grants()

    async def _revoke(self, args: ById, by: str) -> Any:
        return {"revoked": self._house.permissions.grant_store.revoke(args.id, now=time.time())}

    async def _list_rules(self, args: Nothing, by: str) -> Any:
        return self.rules()

    async def _add_rule(self, args: Draft, by: str) -> Any:
        return rulebook.add_rule(self._house.permissions, rulebook.read_draft(args.rule))

    async def _edit_rule(self, args: Edit, by: str) -> Any:
        return rulebook.edit_rule(self._house.permissions, args.id, rulebook.read_draft(args.rule))

    async def _remove_rule(self, args: ById, by: str) -> Any:
        self._house.permissions.rule_store.remove(args.id)
        return {"removed": args.id}

    async def _preview_rule(self, args: Draft, by: str) -> Any:
        draft = rulebook.read_draft(args.rule)
        return await asyncio.to_thread(rulebook.preview_rule, self._house.state_dir, draft)

    async def _switch_preset(self, args: Switch, by: str) -> Any:
        rulebook.switch_preset(self._house.permissions, args.name, on=args.on)
        return self.rules()
