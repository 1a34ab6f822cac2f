from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from tests.integration.server.harness import Api, Connect, live_server, make_settings


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests that need no settings of their own; each has its own project."""
    with live_server(make_settings(tmp_path_factory.mktemp("server"))) as base_url:
        yield base_url


@pytest.fixture
def agents() -> Iterator[ThreadPoolExecutor]:
    executor = ThreadPoolExecutor(max_workers=64)
    yield executor
    executor.shutdown(wait=False)


@pytest.fixture
def connect(agents: ThreadPoolExecutor) -> Iterator[Callable[..., Api]]:
    """Makes users of a server: `connect(base_url)`, by default always the same user and project."""
    made: list[Api] = []

    def make(base_url: str, user_id: str = "u", project_id: str = "p", token: str = "") -> Api:
        made.append(Api(base_url, user_id, project_id, agents, token))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def api(shared_server: str, connect: Connect) -> Api:
    """A user with a fresh project on the shared server."""
    return connect(shared_server, f"user-{uuid4()}", f"project-{uuid4()}")
