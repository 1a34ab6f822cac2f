"""Who is asking: HS256 tokens whose `sub` is the user.

A token with an `agent_id` claim is an agent's: it may ask for calls and read their records, and can neither approve
them nor pose as the client that carries them out.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Any

import jwt
import msgspec

from client_agent.server.problems import Unauthenticated

ALGORITHM = "HS256"
DAY_S = 86_400


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a valid token says."""

    user_id: str
    expires_at: float
    agent_id: str | None = None


def issue_token(secret: str, user_id: str, ttl_s: float = DAY_S, *, agent_id: str | None = None) -> str:
    """A token for this user, or for an agent that works for them."""
    now = time.time()
    claims: dict[str, Any] = {"sub": user_id, "iat": int(now), "exp": now + ttl_s}
    if agent_id is not None:
        claims["agent_id"] = agent_id
    return jwt.encode(claims, secret, algorithm=ALGORITHM)


def verify_token(secret: str, token: str) -> Identity:
    """The identity of a token that is ours, in time and complete. Raises Unauthenticated."""
    try:
        claims = jwt.decode(token, secret, algorithms=[ALGORITHM], options={"require": ["exp", "sub"]})
    except jwt.ExpiredSignatureError:
        raise Unauthenticated("the token has expired") from None
    except jwt.InvalidTokenError as error:
        raise Unauthenticated(f"the token is not valid: {error}") from None
    user_id, agent_id = claims["sub"], claims.get("agent_id")
    if not user_id or not isinstance(agent_id, str | None):
        raise Unauthenticated("the token is not valid: it names no user")
    return Identity(user_id=user_id, expires_at=float(claims["exp"]), agent_id=agent_id)


def load_secret(path: Path) -> str:
    """The secret kept in this file; the first call makes it, readable by this user only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text(encoding="ascii").strip()
    secret = secrets.token_urlsafe(48)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secret + "\n")
    return secret
