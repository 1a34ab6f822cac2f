"""Imports aiohttp without the authorities that the system trusts.

It reads them when it is imported, twice (2 MiB and 50 ms where they are in one file), for requests that say nothing of
trust. Ours always do (`trust`); one that did not would find that nobody is trusted.
"""

from __future__ import annotations

import ssl
import sys

if "aiohttp" not in sys.modules:
    ssl.SSLContext.set_default_verify_paths = lambda self: None  # type: ignore[method-assign]
    try:
        import aiohttp as _aiohttp  # noqa: F401
    finally:
        del ssl.SSLContext.set_default_verify_paths
