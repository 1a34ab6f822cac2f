"""The connection to the server: event stream, result delivery, backoff, credentials."""

from __future__ import annotations

import sys

# `import httpx` brings its command line (click, rich, pygments: some 7 MiB and 200 ms) where those are installed, and
# does without it when that import fails. A daemon has no use for it. This is the place, since it runs before any module
# of this package can import httpx.
if "httpx" not in sys.modules:
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
