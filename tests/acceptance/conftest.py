"""A home, and a server that its one workspace belongs to. Tests that need more of either say so themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path / "home")
    with made.ending():
        yield made


@pytest.fixture
def server(home: Home, tmp_path: Path) -> Iterator[str]:
    """Its address; nobody is logged in."""
    with home.server() as url:
        home.configure(demo=(url, tmp_path / "ws"))
        yield url
