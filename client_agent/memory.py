"""How this process treats the memory of large buffers."""

from __future__ import annotations

import ctypes
import sys

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_REUSED_BYTES = 8 * 2**20  # buffers up to this size
_KEPT_BYTES = 16 * 2**20  # at most so much is kept unused


def reuse_pages() -> None:
    """Lets glibc use the pages of a large buffer for the next one.

    Left to itself it may give them back after every call and fault them in again for the next: for a file of 1 MiB a
    thousand page faults, which take longer than reading it. And what one thread has given back serves the others too:
    hardly ever do two want memory at the same moment. Must come before there are threads. Elsewhere it does nothing.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_MMAP_THRESHOLD, _REUSED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_ARENA_MAX, 1)
