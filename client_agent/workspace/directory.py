"""A directory held open: the platform's own way of naming things in it and nothing above it."""

from __future__ import annotations

import sys

__all__ = ["Directory"]

if sys.platform == "win32":
    from client_agent.workspace.windows import Directory
else:
    from client_agent.workspace.posix import Directory
