"""The program as a bundle: a directory that carries its own interpreter and needs no Python on the machine.

There `sys.executable` is client-agent itself, which takes no Python options: whoever starts it anew asks here how.
"""

from __future__ import annotations

import sys

# The beginning of a first argument that makes the bundle a sandbox launcher; the launcher's module follows.
LAUNCHER_WORD = "--sandbox-launcher="


def is_bundle() -> bool:
    """Whether this is such a bundle."""
    return bool(getattr(sys, "frozen", False))


def own_command() -> list[str]:
    """The beginning of a command line that runs this very program again.

    `-P` keeps the directory it is started in, which may be a hostile workspace, from being searched for modules.
    """
    return [sys.executable] if is_bundle() else [sys.executable, "-P", "-m", "client_agent"]
