"""A workspace whose writes are kept, and what takes them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from client_agent import config
from client_agent.assembly import open_place, open_root
from client_agent.journal.audit import AuditEntry
from client_agent.journal.writes import Writes
from client_agent.undo import Undo
from client_agent.workspace.root import Root
from client_agent.workspace.writing import Parents, Written


class Desk:
    """Writes as calls do, and undoes as a person does."""

    def __init__(self, tmp_path: Path, bounds: config.Undo, now: Callable[[], float] | None = None) -> None:
        self.ws = tmp_path / "ws"
        self.ws.mkdir(exist_ok=True)
        self.state = tmp_path / "state"
        workspace = config.local_workspace(self.ws.resolve())
        policy = msgspec.structs.replace(workspace.policy, deny=("private/**",))
        self.workspace = msgspec.structs.replace(workspace, policy=policy)
        self.root: Root = open_root(self.workspace)
        self.writes = Writes(self.state, bounds, **({"now": now} if now else {}))
        self.noted: list[AuditEntry] = []
        self.undo = Undo(self.writes, open_place(lambda: {"w": self.workspace}), self.noted.append)

    def write(self, write_id: str, path: str, data: bytes, **how: Any) -> Written:
        keeper = self.writes.keeper("w", self.root.real_path, write_id)
        return self.root.write(path, data, **{"parents": Parents.CREATE, "max_bytes": 10**8, **how}, keeper=keeper)

    def apply(self, write_id: str) -> str:
        return self.undo.apply(write_id, None, by="test").id

    def read(self, path: str) -> bytes:
        return (self.ws / path).read_bytes()

    @property
    def kept(self) -> list[Path]:
        directory = self.state / "undo"
        return sorted(directory.iterdir()) if directory.exists() else []

    def close(self) -> None:
        self.root.close()
        self.writes.close()


MakeDesk = Callable[..., Desk]


@pytest.fixture
def make_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeDesk]:
    monkeypatch.setenv("CLIENT_AGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CLIENT_AGENT_CONFIG", str(tmp_path / "config.toml"))
    made: list[Desk] = []

    def make(max_bytes: int = 10**9, keep_days: float = 30, now: Callable[[], float] | None = None) -> Desk:
        made.append(Desk(tmp_path, config.Undo(max_bytes=max_bytes, keep_days=keep_days), now))
        return made[-1]

    yield make
    for desk in made:
        with closing(desk):
            pass


@pytest.fixture
def desk(make_desk: MakeDesk) -> Desk:
    return make_desk()
