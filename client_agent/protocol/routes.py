"""The addresses of the wire protocol, below the server's base URL."""

from __future__ import annotations

from urllib.parse import quote

PROJECT = "/my/projects/{project_id}"
STREAM = PROJECT + "/chat/stream"
MESSAGES = PROJECT + "/chat/messages"
TOOLS_AVAILABLE = PROJECT + "/tools/available"
TOOLS_EXECUTE = PROJECT + "/tools/execute"
TOOL_RESULT = PROJECT + "/tools/{tool_id}/result"
TOOL_RESULTS = PROJECT + "/tools/results"
APPROVE = PROJECT + "/approvals/{approval_id}/approve"
REJECT = PROJECT + "/approvals/{approval_id}/reject"

# Logging in, where a server offers it: OAuth's device flow (RFC 8628), refresh and revocation (RFC 7009).
DEVICE_AUTHORIZATION = "/oauth/device_authorization"
TOKEN = "/oauth/token"  # noqa: S105
REVOKE = "/oauth/revoke"
DEVICE = "/device"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


def fill(route: str, **names: str) -> str:
    """The route with its names put in; a name can never add a path segment, a query or a fragment."""
    return route.format(**{key: quote(value, safe="") for key, value in names.items()})
