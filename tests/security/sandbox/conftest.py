"""A workspace, what lies beside it, and a sandbox around what runs in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from client_agent.policy.paths import Protection
from client_agent.sandbox import open_sandbox
from tests.security.sandbox.place import SECRET, Place


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "ws"
    path.mkdir()
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret.txt").write_text(SECRET)
    return path


@pytest.fixture
async def place(workspace: Path, outside: Path) -> AsyncIterator[Place]:
    sandbox = await open_sandbox(workspace, is_protected=Protection().find)
    assert sandbox.mechanism.name == "namespaces"
    assert sandbox.mechanism.gaps == ()
    yield Place(workspace, outside, sandbox)
    await sandbox.close()
