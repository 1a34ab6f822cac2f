"""The tables. Nothing here is particular to one database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import BigInteger, DateTime, Index, Integer, String, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

ERROR_MAX_CHARS = 1000


class JsonText(TypeDecorator[Any]):
    """JSON kept as text. It is read as `msgspec.Raw`, so that a large result passes through without being parsed."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any | None, dialect: Dialect) -> str | None:
        return None if value is None else msgspec.json.encode(value).decode()

    def process_result_value(self, value: Any | None, dialect: Dialect) -> msgspec.Raw | None:
        return None if value is None else msgspec.Raw(value.encode())


class UtcTime(TypeDecorator[datetime]):
    """An aware time, kept as UTC without zone, which every database can."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


class Base(DeclarativeBase):
    type_annotation_map = {datetime: UtcTime, str: String(200), msgspec.Raw: JsonText}  # noqa: RUF012


class Project(Base):
    """A project belongs to the user who first used it."""

    __tablename__ = "projects"

    id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str]
    created_at: Mapped[datetime]


class ToolExecution(Base):
    """The record of a call. `tool_params` are masked."""

    __tablename__ = "tool_executions"
    __table_args__ = (Index("ix_tool_executions_project_created", "project_id", "created_at"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    user_id: Mapped[str] = mapped_column(index=True)
    project_id: Mapped[str]
    session_id: Mapped[str | None]
    agent_id: Mapped[str | None]
    approval_id: Mapped[str | None] = mapped_column(String(36))
    tool_name: Mapped[str] = mapped_column(String(50), index=True)
    tool_params: Mapped[msgspec.Raw]
    result: Mapped[msgspec.Raw | None]
    risk_level: Mapped[str] = mapped_column(String(20))
    requires_approval: Mapped[bool]
    status: Mapped[str] = mapped_column(String(50), index=True)
    error: Mapped[str | None] = mapped_column(String(ERROR_MAX_CHARS))
    error_type: Mapped[str | None] = mapped_column(String(100))
    execution_time_ms: Mapped[int | None]
    created_at: Mapped[datetime] = mapped_column(index=True)
    approved_at: Mapped[datetime | None]
    cancel_requested_at: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]


class Approval(Base):
    """A question to the user: pending, then one of approved, rejected, timeout, cancelled."""

    __tablename__ = "approvals"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    project_id: Mapped[str]
    tool_id: Mapped[str] = mapped_column(String(36), index=True)
    status: Mapped[str] = mapped_column(String(20), index=True)
    reason: Mapped[str | None] = mapped_column(String(ERROR_MAX_CHARS))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    decided_at: Mapped[datetime | None]


class StoredEvent(Base):
    """What a client that was away still has to hear. Ids only ever grow, also when the newest event is deleted."""

    __tablename__ = "events"
    __table_args__ = (Index("ix_events_project", "project_id", "id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    project_id: Mapped[str]
    name: Mapped[str] = mapped_column(String(50))
    tool_id: Mapped[str | None] = mapped_column(String(36), index=True)
    data: Mapped[msgspec.Raw]


class DeviceLogin(Base):
    """A device that wants to log in: pending, then approved or denied; gone when its tokens were fetched."""

    __tablename__ = "device_logins"

    device_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    user_code: Mapped[str] = mapped_column(String(20), unique=True)
    status: Mapped[str] = mapped_column(String(20))
    user_id: Mapped[str | None]
    interval_s: Mapped[int]
    polled_at: Mapped[datetime | None]
    expires_at: Mapped[datetime]


class Login(Base):
    """A login that can be refreshed: the hashes of its newest refresh token and of the one before."""

    __tablename__ = "logins"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    user_id: Mapped[str]
    current_hash: Mapped[str] = mapped_column(String(64))
    previous_hash: Mapped[str] = mapped_column(String(64))
    expires_at: Mapped[datetime]


class ChatMessage(Base):
    """A message or task of the user."""

    __tablename__ = "messages"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    project_id: Mapped[str] = mapped_column(index=True)
    user_id: Mapped[str]
    session_id: Mapped[str | None]
    content: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
