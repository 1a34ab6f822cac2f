"""What the reference server can be told."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from client_agent.config import MEGABYTE, Approvals, Limits, Policy, Workspace
from client_agent.errors import ConfigError

MIN_SECRET_BYTES = 32  # what RFC 7518 asks of an HS256 key


class EventShape(StrEnum):
    """How an event's JSON looks on the stream; its name is in SSE's `event:` field in both."""

    BARE = "bare"  # the data object itself
    ENVELOPE = "envelope"  # {"event": NAME, "data": {…}}


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings; only the secret has no default. Raises ConfigError when one cannot be used."""

    jwt_secret: str
    host: str = "127.0.0.1"
    port: int = 8765  # 0 takes a free one
    database_url: str = "sqlite:///client-agent-server.db"

    access_token_s: float = 3600  # of a token that a login gives, and its refresh token renews

    heartbeat_s: float = 15  # a comment goes out after this much silence
    retry_ms: int = 1000  # how long a client should wait before it connects again
    event_shape: EventShape = EventShape.BARE
    events_retained: int = 10_000  # settled events kept for replay, each project; open ones are always kept
    stream_queue_events: int = 1000  # a stream that falls further behind is cut off, and resumes by Last-Event-ID

    result_timeout_s: float = 900  # how long an agent's request waits for the client after the signal
    cancel_grace_s: float = 30  # how long a client may take to say what became of a cancelled call
    shutdown_grace_s: int = 5
    body_max_bytes: int = 160 * MEGABYTE

    limits: Limits = Limits()
    policy: Policy = Policy()
    approvals: Approvals = Approvals()

    def __post_init__(self) -> None:
        if len(self.jwt_secret.encode()) < MIN_SECRET_BYTES:
            raise ConfigError(f"jwt_secret: expected at least {MIN_SECRET_BYTES} bytes")
        for name in (
            "access_token_s",
            "heartbeat_s",
            "stream_queue_events",
            "result_timeout_s",
            "cancel_grace_s",
            "body_max_bytes",
        ):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name}: found {getattr(self, name)}, expected more than 0")

    def __repr__(self) -> str:
        """Without the secret and the database's password."""
        return f"ServerSettings(host={self.host!r}, port={self.port})"

    @property
    def workspace(self) -> Workspace:
        """What the judge decides by. The server has no files: the root is never looked at."""
        return Workspace(
            root="/",
            project_id="any",
            server="http://127.0.0.1",
            limits=self.limits,
            policy=self.policy,
            approvals=self.approvals,
        )
