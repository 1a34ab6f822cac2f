"""The connection to the database. What is particular to SQLite is here and nowhere else.

One server process serves one database: writes take turns under one lock, and an event reaches the streams in the order
in which it was committed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from client_agent.errors import ConfigError
from client_agent.server.models import Base

_ASYNC_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}


class Database:
    """Short transactions on one database."""

    def __init__(self, url: str) -> None:
        self._url = _parse_url(url)
        self._engine: AsyncEngine | None = None
        self._writer = asyncio.Lock()

    async def open(self) -> None:
        """Connects, and makes the tables that are missing. Raises ConfigError when the address cannot be used."""
        try:
            if self._url.get_backend_name() == "sqlite":
                _prepare_sqlite_file(self._url)
            self._engine = create_async_engine(self._url)
            if self._url.get_backend_name() == "sqlite":
                event.listen(self._engine.sync_engine, "connect", _tune_sqlite)
            async with self._engine.begin() as connection:
                await connection.run_sync(Base.metadata.create_all)
        except (SQLAlchemyError, OSError, ImportError) as error:
            await self.close()
            place = self._url.render_as_string(hide_password=True)
            raise ConfigError(f"the database {place} cannot be used: {error}", code="database_unusable") from error

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.dispose()
            self._engine = None

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        async with self._connected().connect() as connection:
            yield connection

    @asynccontextmanager
    async def write(self, committed: Callable[[], None] = lambda: None) -> AsyncIterator[AsyncConnection]:
        """Committed at the end, or rolled back when an exception leaves.

        `committed` is called after the commit and before anybody else can write: its order is the order of commits.
        """
        async with self._writer:
            async with self._connected().begin() as connection:
                yield connection
            committed()

    def _connected(self) -> AsyncEngine:
        if self._engine is None:
            raise ConfigError("the database is not open", code="database_closed")
        return self._engine


def _parse_url(text: str) -> URL:
    try:
        url = make_url(text)
    except ArgumentError:
        raise ConfigError(f"database_url: found {text!r}, expected an address such as sqlite:///server.db") from None
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ConfigError("database_url: expected a file; a server without one would forget its calls on a restart")
    return url.set(drivername=_ASYNC_DRIVERS.get(url.drivername, url.drivername))


def _prepare_sqlite_file(url: URL) -> None:
    """Made by us, so that only this user can read it: open calls are in it with all their parameters."""
    path = Path(url.database or "")
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _tune_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")  # with WAL, a crash of the process loses nothing
    cursor.execute("PRAGMA busy_timeout = 5000")
    cursor.execute("PRAGMA secure_delete = ON")  # the parameters of a finished call are gone from the file as well
    cursor.close()
