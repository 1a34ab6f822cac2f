"""A workspace with a sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from client_agent.policy.paths import Protection
from client_agent.sandbox import Limits, Sandbox, open_sandbox
from tests.integration.sandbox.commands import OpenSandbox


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "ws"
    path.mkdir()
    return path


@pytest.fixture
async def open_here(workspace: Path) -> AsyncIterator[OpenSandbox]:
    """Opens sandboxes for the workspace and closes them after the test."""
    opened: list[Sandbox] = []

    async def open_one(**changes: Any) -> Sandbox:
        limits = Limits(**changes.pop("limits", {}))
        sandbox = await open_sandbox(workspace, is_protected=Protection().find, limits=limits, **changes)
        opened.append(sandbox)
        return sandbox

    yield open_one
    for sandbox in opened:
        await sandbox.close()
