"""What every operation is: a name, the arguments it takes, and what answers it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from client_agent.errors import JournalError
from client_agent.journal.reader import Reader, reading
from client_agent.local_api.house import House

T = TypeVar("T")

MAX_REASON_CHARS = 500

Handler: TypeAlias = Callable[[Any, str], Awaitable[Any]]  # the arguments, and by which channel they came
Table: TypeAlias = dict[str, tuple[type[msgspec.Struct], Handler]]


class Args(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operation takes: nothing but what it names."""


class Nothing(Args, frozen=True):
    pass


class ById(Args, frozen=True):
    id: str


async def read_journal(house: House, look: Callable[[Reader], T]) -> T:
    """What the journal says with all that has happened until now, read in a thread: one slow disk holds up nobody."""

    def read() -> T:
        with contextlib.suppress(JournalError):  # what cannot be stored is in the status
            house.journal.flush()
        with reading(house.state_dir) as reader:
            return look(reader)

    return await asyncio.to_thread(read)
