"""Which proxy the way to the server leads through. Pure."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping

from yarl import URL

from client_agent.config import Link
from client_agent.errors import ConfigError
from client_agent.link.origin import is_loopback


def choose_proxy(settings: Link, server: URL, env: Mapping[str, str] = os.environ) -> URL | None:
    """The proxy from the settings, else from the environment (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY).

    The environment's proxy is never used for a server on this machine. Raises ConfigError for one that cannot be used.
    """
    if settings.proxy:
        return _checked(settings.proxy, "link.proxy")
    if is_loopback(server) or any(_exempts(entry, server) for entry in _read(env, "no_proxy").split(",")):
        return None
    for name in (f"{server.scheme}_proxy", "all_proxy"):
        if found := _read(env, name):
            return _checked(found, f"environment variable {name.upper()}")
    return None


def _read(env: Mapping[str, str], name: str) -> str:
    return (env.get(name) or env.get(name.upper()) or "").strip()


def _exempts(entry: str, server: URL) -> bool:
    """Whether an entry of NO_PROXY (`*`, a domain, an address, with or without a port; a network) means this server."""
    host, entry = (server.host or "").lower(), entry.strip().lower()
    if "/" in entry:
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name = entry.removesuffix(f":{server.port}").strip("[]").lstrip("*.") if entry != "*" else host
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _checked(text: str, where: str) -> URL:
    # The address may hold a password: it is not repeated.
    wanted = f"{where}: expected a proxy address like http://host:3128"
    try:
        proxy = URL(text if "://" in text else f"http://{text}")
    except ValueError:
        raise ConfigError(f"{wanted}, found one that cannot be read") from None
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise ConfigError(f"{wanted}, found one of the kind {proxy.scheme!r}")
    return proxy
