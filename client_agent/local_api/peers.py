"""Whose program it is that came to the page's door. Loopback is shared by everybody on a machine.

Secrets alone would keep others out, but for the moment in which a browser is started with the page's address on its
command line, where everybody can read it. So a program of another user is not even listened to.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_TABLE = Path("/proc/self/net/tcp")
_ESTABLISHED = "01"  # in any other state the kernel may have forgotten whose it was, and says 0
_ROOT = 0

# Where the system can tell. On macOS and Windows the secrets have to do.
CAN_TELL = sys.platform == "linux"


def is_same_user(ours: tuple[str, int], theirs: tuple[str, int]) -> bool:
    """Whether the program at `theirs`, connected to us at `ours`, is this user's, or root's. Raises OSError."""
    return find_owner(_TABLE.read_text("ascii"), ours, theirs) in (_ROOT, os.getuid())


def find_owner(table: str, ours: tuple[str, int], theirs: tuple[str, int]) -> int | None:
    """The user of their end of the connection, in a table as Linux has it; None when it is not there."""
    ends = [_spell(theirs), _spell(ours), _ESTABLISHED]
    for line in table.splitlines()[1:]:
        fields = line.split()
        if fields[1:4] == ends:
            return int(fields[7])
    return None


def _spell(address: tuple[str, int]) -> str:
    """An IPv4 address as the kernel prints it: the bytes of a number of this machine."""
    number = int.from_bytes(bytes(int(part) for part in address[0].split(".")), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"
