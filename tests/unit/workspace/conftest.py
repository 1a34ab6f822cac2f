"""A workspace beside a directory that must stay out of reach, opened in each way there is to open it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from client_agent.policy.paths import Protection
from client_agent.workspace import openat2
from client_agent.workspace.root import Root

SECRET = "what lies outside"
NO_SUCH_SYSCALL = 100_000
NOBODY = 65_534

OrdinaryUser = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory that every user may go through, with `ws` and `outside` in it."""
    path = Path(tempfile.mkdtemp(prefix="client-agent-test-")).resolve()
    path.chmod(0o755)
    (path / "ws").mkdir()
    (path / "outside").mkdir()
    (path / "outside" / "secret.txt").write_text(SECRET)
    yield path
    for directory, names, _ in os.walk(path):  # a test may have shut some
        for inner in (Path(directory, name) for name in names):
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(path)


@pytest.fixture
def ws(base: Path) -> Path:
    return base / "ws"


@pytest.fixture
def outside(base: Path) -> Path:
    return base / "outside"


@pytest.fixture(params=["openat2", "walk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the system call, and as on a kernel that does not have it."""
    if request.param == "walk":
        monkeypatch.setattr(openat2, "_NUMBER", NO_SUCH_SYSCALL)
    return str(request.param)


@pytest.fixture
def root(ws: Path, way: str) -> Iterator[Root]:
    opened = Root(ws, Protection(deny=("private/**",)))
    assert (opened._finder is None) == (way == "walk")
    yield opened
    opened.close()


@pytest.fixture
def ordinary_user(base: Path) -> OrdinaryUser:
    """Within it, permissions count: root lays its rights down, anyone else has none to lay down."""

    @contextmanager
    def become() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        for directory, _, files in os.walk(base):
            for name in (directory, *(os.path.join(directory, file) for file in files)):
                os.chown(name, NOBODY, NOBODY, follow_symlinks=False)
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)

    return become
