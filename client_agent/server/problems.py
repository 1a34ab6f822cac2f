"""What a request can be told instead of an answer: one class for each HTTP status.

Problem
├── BadRequest        400  the body, a path part or a query value is not what is expected
├── Unauthenticated   401  no token, or one that does not hold
├── Forbidden         403  an agent's token where the user's is needed
├── NotFound          404  unknown, or another user's: the two look the same
├── Conflict          409  the call or the approval is past the point where this could happen
└── BodyTooLarge      413
"""

from __future__ import annotations

from http import HTTPStatus
from typing import ClassVar

from client_agent.errors import ClientAgentError


class Problem(ClientAgentError):
    """Becomes `{"success": false, "message": …, "detail": …}` with this status."""

    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    headers: ClassVar[dict[str, str]] = {}


class BadRequest(Problem):
    code = "bad_request"
    status = HTTPStatus.BAD_REQUEST


class Unauthenticated(Problem):
    code = "unauthenticated"
    status = HTTPStatus.UNAUTHORIZED
    headers: ClassVar[dict[str, str]] = {"WWW-Authenticate": "Bearer"}


class Forbidden(Problem):
    code = "forbidden"
    status = HTTPStatus.FORBIDDEN


class NotFound(Problem):
    code = "not_found"
    status = HTTPStatus.NOT_FOUND


class Conflict(Problem):
    code = "conflict"
    status = HTTPStatus.CONFLICT


class BodyTooLarge(Problem):
    code = "too_large"
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    headers: ClassVar[dict[str, str]] = {"Connection": "close"}  # the rest of the body is never read
