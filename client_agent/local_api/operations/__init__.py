"""What can be asked of the daemon through its door: a module a group of operations, one table of all of them."""

from __future__ import annotations

from typing import Any

import msgspec

from client_agent.errors import UserError
from client_agent.local_api.house import House
from client_agent.local_api.operations.operation import Table
from client_agent.local_api.operations.permissions import PermissionOperations
from client_agent.local_api.operations.questions import QuestionOperations
from client_agent.local_api.operations.record import RecordOperations
from client_agent.local_api.operations.status import StatusOperations
from client_agent.local_api.operations.unfinished import UnfinishedOperations


class Operations:
    """All of them, by name. `perform` raises UserError for what the caller can put right."""

    def __init__(self, house: House) -> None:
        unfinished = UnfinishedOperations(house)
        status, permissions = StatusOperations(house, unfinished), PermissionOperations(house)
        questions, record = QuestionOperations(house), RecordOperations(house)
        self._table: Table = {
            **status.table, **questions.table, **permissions.table, **record.table, **unfinished.table,
        }  # fmt: skip
        # How things stand, for those who watch: the same without asking by name.
        self.status = status.status
        self.standing_questions = questions.standing
        self.rules = permissions.rules
        self.grants = permissions.grants

    async def perform(self, op: str, args: dict[str, Any], by: str) -> Any:
        """The operation's result. `by` names the channel, for the record."""
        if op not in self._table:
            raise UserError(f"there is no operation {op!r}", code="unknown_operation")
        model, handler = self._table[op]
        try:
            typed = msgspec.convert(args, model)
        except msgspec.ValidationError as error:
            raise UserError(f"{op}: {error}", code="invalid_arguments") from None
        return await handler(typed, by)
