"""What the operating system says, as errors a person or an agent can act on.

Messages name the path as the caller wrote it, never a path the caller could not have known.
"""

from __future__ import annotations

import errno
import os

from client_agent.errors import AccessRefused, CallError, MissingFile, SystemRefused, WrongKind
from client_agent.policy.decision import Reason

_SHOWN_CHARS = 160

_Said = tuple[type[CallError], str, str]
_BY_ERRNO: dict[int, _Said] = {
    errno.ENOENT: (MissingFile, "not_found", "there is no {path}"),
    errno.ENOTDIR: (WrongKind, "not_a_directory", "{path} leads through something that is not a directory"),
    errno.EISDIR: (WrongKind, "is_directory", "{path} is a directory"),
    errno.ELOOP: (WrongKind, "path_loop", "{path} leads through too many links and turns"),
    errno.ENAMETOOLONG: (AccessRefused, "path_too_long", "{path} is longer than the file system allows"),
    errno.EILSEQ: (AccessRefused, "path_not_text", "{path} is not a name this file system can hold"),
    errno.ENXIO: (WrongKind, "special_file", "{path} is a device, FIFO or socket"),
    errno.ENODEV: (WrongKind, "special_file", "{path} is a device, FIFO or socket"),
    errno.EACCES: (SystemRefused, "permission_denied", "the user of this laptop has no permission for {path}"),
    errno.EPERM: (SystemRefused, "permission_denied", "the operating system does not allow this on {path}"),
    errno.EROFS: (SystemRefused, "read_only", "{path} is on a read-only file system"),
    errno.ENOSPC: (SystemRefused, "disk_full", "no space is left on the disk for {path}"),
    errno.EDQUOT: (SystemRefused, "disk_full", "the disk quota leaves no space for {path}"),
    errno.EFBIG: (SystemRefused, "disk_full", "{path} would be larger than the file system allows"),
    errno.EMFILE: (SystemRefused, "too_many_open_files", "too many files are open to open {path}; try again"),
    errno.ENFILE: (SystemRefused, "too_many_open_files", "too many files are open to open {path}; try again"),
    errno.EAGAIN: (SystemRefused, "busy", "{path} is in use by another program; try again"),
    errno.EBUSY: (SystemRefused, "busy", "{path} is in use by another program; try again"),
    errno.ETXTBSY: (SystemRefused, "busy", "{path} is a program that is running"),
}


def explain(error: OSError, path: str) -> CallError:
    """The error to raise for what the operating system said about this path."""
    said = _BY_ERRNO.get(error.errno or 0)
    if said is None:
        words = os.strerror(error.errno) if error.errno else "unknown error"
        return SystemRefused(f"the operating system refused {show(path)}: {words}", path=path)
    kind, code, message = said
    return kind(message.format(path=show(path)), code=code, path=path)


def os_error(number: int) -> OSError:
    """The error the operating system would raise, of the fitting class."""
    return OSError(number, os.strerror(number))


def refuse(reason: Reason, path: str) -> AccessRefused:
    return AccessRefused(reason.text, code=reason.code, path=path)


def leads_outside(path: str) -> AccessRefused:
    return AccessRefused(f"{show(path)} leads outside the workspace", code="path_outside", path=path)


def show(path: str) -> str:
    """The path, quoted, with odd characters visible, never longer than a line."""
    return ascii(path) if len(path) <= _SHOWN_CHARS else ascii(path[:_SHOWN_CHARS]) + "…"
