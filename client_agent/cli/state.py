"""What the commands open in the state directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from client_agent.approvals.permissions import Permissions


@contextmanager
def open_permissions() -> Iterator[Permissions]:
    """The rules and grants, the same file that a running daemon looks at."""
    from client_agent import config
    from client_agent.approvals.permissions import Permissions

    with closing(Permissions(config.state_dir())) as permissions:
        yield permissions
