"""Whose project is whose."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import insert, select

from client_agent.server.database import Database
from client_agent.server.models import Project
from client_agent.server.problems import NotFound

_MAX_REMEMBERED = 10_000


class Projects:
    """A project belongs to the user who first uses it, for good; to everybody else it does not exist."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owners: dict[str, str] = {}

    async def admit(self, project_id: str, user_id: str) -> None:
        """Returns when the project is this user's, which it becomes when it is nobody's yet. Raises NotFound."""
        owner = self._owners.get(project_id) or await self._find_owner(project_id, user_id)
        if owner != user_id:
            raise NotFound(f"there is no project {project_id!r}")

    async def _find_owner(self, project_id: str, user_id: str) -> str:
        query = select(Project.user_id).where(Project.id == project_id)
        async with self._database.write() as connection:
            owner = (await connection.execute(query)).scalar_one_or_none()
            if owner is None:
                values = {"id": project_id, "user_id": user_id, "created_at": datetime.now(UTC)}
                await connection.execute(insert(Project).values(**values))
                owner = user_id
        if len(self._owners) >= _MAX_REMEMBERED:
            self._owners.clear()
        self._owners[project_id] = owner
        return owner
