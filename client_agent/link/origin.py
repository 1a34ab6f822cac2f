"""Whose server an address belongs to, and which redirects stay with it. Pure."""

from __future__ import annotations

import ipaddress

from yarl import URL

from client_agent.errors import LinkError

MAX_REDIRECTS = 5
_GET_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_POST_REDIRECTS = frozenset({307, 308})  # the others would turn the post into a GET


class RedirectRefused(LinkError):
    """The server points somewhere that the token must not go."""

    code = "redirected"


def origin_of(url: URL) -> str:
    """Scheme, host and port, always spelled the same way."""
    host = f"[{url.host}]" if ":" in (url.host or "") else url.host
    return f"{url.scheme}://{host}:{url.port}"


def is_loopback(url: URL) -> bool:
    """Whether the address can only mean this machine."""
    host = (url.host or "").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_redirect(method: str, status: int) -> bool:
    """Whether this answer names another address that the same request may be sent to."""
    return status in (_GET_REDIRECTS if method == "GET" else _POST_REDIRECTS)


def follow(url: URL, location: str) -> URL:
    """Where a redirect leads, when that is the same origin. Raises RedirectRefused.

    The new address is put together from the origin we hold and the path we were given, so that however `location`
    might be misread, the request cannot leave.
    """
    try:
        target = url.join(URL(location))
        stays = origin_of(target) == origin_of(url) and target.user is None and target.password is None
    except ValueError:
        target, stays = URL(), False
    if not location or not target.host:
        raise RedirectRefused(f"the server at {url.origin()} redirects to an address that cannot be read")
    if not stays:
        portal = "" if target.host == url.host else ", or log in to this network if that is its login page"
        raise RedirectRefused(
            f"the server at {url.origin()} redirects to {_shown(target)}: "
            f"change `server` in the configuration if that is right{portal}"
        )
    return URL(f"{url.origin()}{target.raw_path_qs}", encoded=True)


def _shown(target: URL) -> str:
    return str(target.with_user(None).with_query(None).with_fragment(None))[:200]
