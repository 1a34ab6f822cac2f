"""The parts of a running server, built and taken down in one place."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert, text

from client_agent.server.database import Database
from client_agent.server.events import CHAT_MESSAGE, EventLog
from client_agent.server.executions import Executions
from client_agent.server.logins import Logins
from client_agent.server.models import ChatMessage
from client_agent.server.projects import Projects
from client_agent.server.settings import ServerSettings


class Services:
    """Everything the routes need. `open` can be called ahead of the web server to see errors early."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.database = Database(settings.database_url)
        self.log = EventLog(self.database, retained=settings.events_retained, queue_events=settings.stream_queue_events)
        self.projects = Projects(self.database)
        self.logins = Logins(settings, self.database)
        self.executions = Executions(settings, self.log)
        self._opened = False

    async def open(self) -> None:
        """Raises ConfigError when the database cannot be used."""
        if not self._opened:
            await self.database.open()
            await self.executions.open()
            self._opened = True

    def release(self) -> None:
        """Ends what would keep connections open: streams, and agents that wait. Nothing is lost by it."""
        self.log.close()
        self.executions.release_agents()

    async def close(self) -> None:
        self.release()
        await self.executions.close()
        await self.database.close()

    async def check(self) -> None:
        """Raises when the database does not answer."""
        async with self.database.read() as connection:
            await connection.execute(text("SELECT 1"))

    async def post_message(self, message: dict[str, Any]) -> None:
        """Keeps a message of the user and tells the project's streams of it."""
        async with self.log.transaction() as tx:
            await tx.connection.execute(insert(ChatMessage).values(**message))
            event = {
                "message_id": message["id"],
                "role": "user",
                "content": message["content"],
                "session_id": message["session_id"],
                "timestamp": message["created_at"],
            }
            await tx.append(message["project_id"], CHAT_MESSAGE, event)
