"""The doctor against real files, servers and clocks: what is wrong is found, named and given a remedy."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from client_agent.doctor import Doctor, Finding, Level
from client_agent.journal.audit import AuditEntry
from client_agent.journal.journal import Journal


class Place:
    def __init__(self, tmp_path: Path) -> None:
        self.config = tmp_path / "etc" / "config.toml"
        self.state = tmp_path / "state"
        self.root = tmp_path / "ws"
        self.config.parent.mkdir(mode=0o700)
        self.state.mkdir(mode=0o700)
        self.root.mkdir()

    def configure(self, server: str) -> None:
        table = f'[workspaces.w]\nroot = "{self.root}"\nproject_id = "p"\nserver = "{server}"\n'
        self.config.write_text(f"{table}[link]\nconnect_timeout_s = 5\n")
        self.config.chmod(0o600)

    async def examine(self) -> list[Finding]:
        return await Doctor(self.config, self.state).examine()

    async def find(self, check: str) -> Finding:
        found = [finding for finding in await self.examine() if finding.check.startswith(check)]
        assert found, f"nothing said of {check}"
        return found[0]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("CLIENT_AGENT_TOKEN", "token-of-the-test")
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    made = Place(tmp_path)
    made.configure(dead())
    return made


def dead() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextlib.asynccontextmanager
async def server_with_clock(off: timedelta) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server whose clock is off, and the requests it got."""
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        date = format_datetime(datetime.now(UTC) + off, usegmt=True)
        writer.write(f"HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests


async def test_a_configuration_that_is_missing_or_broken_fails_with_a_remedy(place: Place) -> None:
    place.config.write_text("[workspaces.w\n")
    broken = await place.find("configuration")
    place.config.unlink()
    missing = await place.find("configuration")
    assert (broken.level, missing.level) == (Level.FAIL, Level.FAIL)
    assert "not valid TOML" in broken.text
    assert "client-agent init" in missing.remedy


async def test_a_missing_directory_is_named(place: Place) -> None:
    place.root.rmdir()
    found = await place.find("workspace w")
    assert found.level is Level.FAIL
    assert str(place.root) in found.text


async def test_a_daemon_that_is_there_and_does_not_answer_fails_and_none_is_only_said(place: Place) -> None:
    none = await place.find("daemon")
    assert (none.level, none.remedy) == (Level.WARN, "`client-agent start`")
    with contextlib.closing(Journal(place.state)):  # holds the directory, as a daemon does
        silent = await place.find("daemon")
    assert silent.level is Level.FAIL
    assert str(os.getpid()) in silent.text
    assert "stop --force" in silent.remedy


async def test_a_server_that_is_down_fails_and_one_that_answers_is_well(place: Place) -> None:
    assert (await place.find("server")).level is Level.FAIL
    async with server_with_clock(timedelta()) as (url, sent):
        place.configure(url)
        findings = {finding.check: finding for finding in await place.examine()}
    assert findings[f"server {url}"].level is Level.OK
    assert findings[f"token for {url}"].text == "from the environment"
    assert sent
    assert all(b"token-of-the-test" not in request for request in sent), "a look must not send the token"


@pytest.mark.parametrize(("off", "level"), [(0, Level.OK), (100, Level.WARN), (-100, Level.WARN), (4000, Level.FAIL)])
async def test_a_clock_that_is_off_is_noticed(place: Place, off: int, level: Level) -> None:
    async with server_with_clock(timedelta(seconds=off)) as (url, _):
        place.configure(url)
        found = await place.find("clock of")
    assert found.level is level
    if off:
        assert ("behind" if off > 0 else "ahead") in found.text


async def test_a_token_that_is_missing_fails(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLIENT_AGENT_TOKEN")
    found = await place.find("token for")
    assert (found.level, found.remedy) == (Level.FAIL, "`client-agent login`")


async def test_a_directory_of_the_terminal_that_commands_do_not_search_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/tools{os.pathsep}{os.environ['PATH']}")
    found = await place.find("PATH")
    assert found.level is Level.WARN
    assert f"{tmp_path}/tools" in found.text


async def test_a_changed_audit_log_fails(place: Place) -> None:
    journal = Journal(place.state)
    for number in range(3):
        journal.note(AuditEntry(time=datetime.now(UTC), operation="READ", status="success", target=f"file{number}"))
    journal.flush()
    journal.close()
    assert (await place.find("audit log")).level is Level.OK
    path = place.state / "audit.jsonl"
    path.write_text(path.read_text().replace("file1", "other"))
    found = await place.find("audit log")
    assert (found.level, found.remedy) == (Level.FAIL, "`client-agent audit verify` names the place")


async def test_files_that_others_can_read_or_change_fail(place: Place) -> None:
    assert (await place.find("permissions")).level is Level.OK
    place.state.chmod(0o755)
    assert str(place.state) in (await place.find("permissions")).text
    place.state.chmod(0o700)
    place.config.chmod(0o666)
    assert str(place.config) in (await place.find("permissions")).text


async def test_it_changes_nothing(place: Place) -> None:
    async with server_with_clock(timedelta()) as (url, _):
        place.configure(url)
        before = sorted(str(each) for each in place.config.parent.parent.rglob("*"))
        await place.examine()
        assert sorted(str(each) for each in place.config.parent.parent.rglob("*")) == before


async def test_whatever_is_not_well_has_a_remedy(place: Place) -> None:
    place.state.chmod(0o755)
    place.root.rmdir()
    for finding in await place.examine():
        assert finding.level is Level.OK or finding.remedy, finding
