"""Whose word about the server's certificate is taken."""

from __future__ import annotations

import ssl
from pathlib import Path

from client_agent.config import Link
from client_agent.errors import ConfigError


def make_trust(settings: Link) -> ssl.SSLContext:
    """The context that checks the server's certificate: against `ca_file` alone where one is set."""
    if settings.ca_file:
        path = Path(settings.ca_file).expanduser()
        try:
            return ssl.create_default_context(cafile=path)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"link.ca_file: {path} cannot be used: {error}") from None
    if settings.trust == "bundled":
        import certifi

        return ssl.create_default_context(cafile=certifi.where())
    import truststore

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
