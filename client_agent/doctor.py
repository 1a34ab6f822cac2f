"""What is well and what is not on this laptop, each with a remedy. Looks, and changes nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from client_agent import config
from client_agent.assembly import check_settings
from client_agent.errors import ClientAgentError, ConfigError
from client_agent.journal.database import JOURNAL
from client_agent.journal.lock import find_holder
from client_agent.journal.reader import Reader
from client_agent.journal.verification import verify
from client_agent.link.credentials import Credentials
from client_agent.link.probe import Probe, probe
from client_agent.local_api.client import ANSWER_S, NoDaemon, connecting
from client_agent.sandbox import Confinement, NoMechanism, detect, login_shell_path

SKEW_WARN_S = 30.0
SKEW_FAIL_S = 300.0  # tokens are refused by then
DISK_WARN_BYTES = 1_000_000_000
DISK_FAIL_BYTES = 100_000_000


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at. What is not well has a remedy."""

    check: str
    level: Level
    text: str
    remedy: str = ""


class Doctor:
    """Looks at one configuration and one state directory."""

    def __init__(self, path: Path, state_dir: Path) -> None:
        self._path = path
        self._state_dir = state_dir
        self._named = config.Settings()

    async def examine(self) -> list[Finding]:
        """Everything, in the order in which it is best put right."""
        findings = self._look_at_configuration()
        looks = (
            self._look_at_daemon(),
            self._look_at_tokens(),
            self._look_at_servers(),
            self._look_at_sandbox(),
            self._look_at_path(),
            self._look_at_rest(),
        )
        for found in await asyncio.gather(*looks):
            findings += found
        return findings

    def _look_at_configuration(self) -> list[Finding]:
        try:
            loaded = config.load_usable(self._path)
            check_settings(loaded.named)
        except ConfigError as error:
            remedy = (
                "`client-agent init` makes one" if error.code == "config_missing" else "`client-agent config check`"
            )
            return [Finding("configuration", Level.FAIL, error.message, remedy)]
        self._named = loaded.named
        broken = [
            Finding(f"workspace {name}", Level.FAIL, problem, "make the directory, or change the configuration")
            for name, problem in loaded.problems.items()
        ]
        count = len(loaded.settings.workspaces)
        return [Finding("configuration", Level.OK, f"{self._path}: {count} workspaces can be used"), *broken]

    async def _look_at_daemon(self) -> list[Finding]:
        def ask() -> dict[str, Any]:
            with connecting(self._state_dir, timeout_s=ANSWER_S) as daemon:
                told: dict[str, Any] = daemon.request("status")
                return told

        try:
            told = await asyncio.to_thread(ask)
        except NoDaemon as error:
            if (holder := find_holder(self._state_dir)) is not None:
                text = f"process {holder} is there and does not answer: it starts, stops or hangs"
                return [Finding("daemon", Level.FAIL, text, "`client-agent stop --force`, then `client-agent start`")]
            return [Finding("daemon", Level.WARN, error.message, "`client-agent start`")]
        findings = [Finding("daemon", Level.OK, f"runs, version {told['version']}, process {told['pid']}")]
        for name, each in told["workspaces"].items():
            well = each["state"] == "connected"
            text = f"{each['state']}{': ' + each['detail'] if each['detail'] else ''}"
            remedy = "" if well else "see the server's lines below, and `client-agent logs`"
            findings.append(Finding(f"connection {name}", Level.OK if well else Level.FAIL, text, remedy))
        if told["configuration"]["pending"]:
            text = "a changed configuration allows more, and waits"
            findings.append(Finding("daemon", Level.WARN, text, "`client-agent config confirm`"))
        if told["journal_trouble"]:
            text = f"nothing can be recorded, so nothing runs: {told['journal_trouble']}"
            findings.append(Finding("daemon", Level.FAIL, text, "make room on the disk, or put its permissions right"))
        return findings

    async def _look_at_tokens(self) -> list[Finding]:
        return await asyncio.to_thread(lambda: [_keyring(), *self._tokens()])

    def _tokens(self) -> Iterator[Finding]:
        for server in self._servers():
            credentials = Credentials(server, self._state_dir)
            try:
                credentials.token()
            except ClientAgentError as error:
                yield Finding(f"token for {server}", Level.FAIL, error.message, "`client-agent login`")
                continue
            ends = credentials.expires_at
            if ends is not None and ends <= time.time():
                text = "its time is over"
                yield Finding(f"token for {server}", Level.WARN, text, "`client-agent login`, unless it renews itself")
            else:
                yield Finding(f"token for {server}", Level.OK, f"from the {credentials.source}")

    async def _look_at_servers(self) -> list[Finding]:
        servers = self._servers()
        try:
            probes = await asyncio.gather(*(probe(self._named.link, server) for server in servers))
        except ConfigError as error:
            return [Finding("network", Level.FAIL, error.message, "put `[link]` of the configuration right")]
        return [finding for server, found in zip(servers, probes, strict=True) for finding in _judge(server, found)]

    def _servers(self) -> list[str]:
        return sorted({workspace.server for workspace in self._named.workspaces.values()})

    async def _look_at_sandbox(self) -> list[Finding]:
        findings = []
        for choice in sorted({each.sandbox.mechanism for each in self._named.workspaces.values()} or {"auto"}):
            found = await detect(Confinement(choice))
            if isinstance(found, NoMechanism):
                findings.append(Finding("sandbox", Level.FAIL, f"no command can run: {found.reason}", found.remedy))
            elif found.gaps:
                remedy = 'see docs/platforms.md; `sandbox.mechanism = "auto"` confines where it can'
                findings.append(Finding("sandbox", Level.WARN, f"{found.name}: {'; '.join(found.gaps)}", remedy))
            else:
                findings.append(Finding("sandbox", Level.OK, f"{found.name} ({', '.join(found.parts)})"))
        return findings

    async def _look_at_path(self) -> list[Finding]:
        """Commands search the login shell's PATH, which a service does not have of itself."""
        shell = await login_shell_path()
        if shell is None:
            text = "the login shell does not say its PATH: commands get that of the service"
            return [Finding("PATH", Level.WARN, text, "make its start-up files quick, and let them ask nothing")]
        known = shell.split(os.pathsep)
        more = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if entry and entry not in known]
        if more:
            text = f"this terminal also searches {', '.join(more)}; the login shell, and so commands, do not"
            return [Finding("PATH", Level.WARN, text, "set PATH where the login shell reads it (~/.profile)")]
        return [Finding("PATH", Level.OK, f"the login shell's, {len(known)} directories")]

    async def _look_at_rest(self) -> list[Finding]:
        roots = [config.root_of(workspace) for workspace in self._named.workspaces.values()]
        return await asyncio.to_thread(
            lambda: [
                *(_disk(place) for place in dict.fromkeys((self._state_dir, *roots))),
                _notification(),
                _page(),
                *_journal(self._state_dir),
                *_permissions(self._path, self._state_dir),
            ]
        )


def _keyring() -> Finding:
    try:
        import keyring

        backend = keyring.get_keyring()
        usable = backend.priority > 0
        name = type(backend).__module__.removeprefix("keyring.backends.")
    except Exception as error:  # noqa: BLE001 - a keyring's backend raises what it likes
        usable, name = False, type(error).__name__
    if usable:
        return Finding("keyring", Level.OK, name)
    text = f"none that can be used ({name}): tokens are kept in files that only you can read"
    return Finding("keyring", Level.WARN, text, "unlock or install a keyring, then `client-agent login` again")


def _judge(server: str, found: Probe) -> Iterator[Finding]:
    if found.problem:
        remedy = "is the network there, the address right, `link.proxy` and `link.ca_file` set where they are needed?"
        yield Finding(f"server {server}", Level.FAIL, found.problem, remedy)
        return
    scheme = "TLS is good" if server.startswith("https:") else "not encrypted"
    if found.status is not None and found.status >= 500:  # noqa: PLR2004
        remedy = "nothing to be done here: whoever runs it should look"
        yield Finding(f"server {server}", Level.WARN, f"answers with status {found.status}; {scheme}", remedy)
    else:  # without a token even a good one says 401 or 404
        yield Finding(f"server {server}", Level.OK, f"answers; {scheme}")
    if found.skew_s is None:
        remedy = "compare this machine's clock with another one"
        yield Finding(f"clock of {server}", Level.WARN, "the server does not say what time it is", remedy)
        return
    ahead = "ahead of" if found.skew_s > 0 else "behind"
    off = abs(found.skew_s)
    level = Level.FAIL if off > SKEW_FAIL_S else Level.WARN if off > SKEW_WARN_S else Level.OK
    text = "as ours" if level is Level.OK else f"ours is {off:.0f} s {ahead} the server's"
    yield Finding(f"clock of {server}", level, text, "" if level is Level.OK else "let the system set its clock (NTP)")


def _disk(place: Path) -> Finding:
    there = next(each for each in (place, *place.parents) if each.exists())
    free = shutil.disk_usage(there).free
    level = Level.FAIL if free < DISK_FAIL_BYTES else Level.WARN if free < DISK_WARN_BYTES else Level.OK
    return Finding(
        f"disk of {place}", level, f"{free // 1_000_000} MB free", "make room" if level is not Level.OK else ""
    )


def _notification() -> Finding:
    if sys.platform != "linux":
        return Finding("notification", Level.OK, "by the system's own centre")
    bus = os.environ.get("DBUS_SESSION_BUS_ADDRESS") or Path(os.environ.get("XDG_RUNTIME_DIR", "/none"), "bus").exists()
    if bus:
        return Finding("notification", Level.OK, "a desktop session is there")
    text = "no desktop session: questions are shown on the page and in terminals alone"
    return Finding("notification", Level.WARN, text, "`client-agent approvals watch` or `client-agent ui` shows them")


def _page() -> Finding:
    try:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
    except OSError as error:
        return Finding("page", Level.FAIL, f"no port of 127.0.0.1 can be used: {error}", "allow loopback connections")
    return Finding("page", Level.OK, "127.0.0.1 can be used")


def _journal(state_dir: Path) -> Iterator[Finding]:
    if not (state_dir / JOURNAL.file_name).exists():
        yield Finding("journal", Level.OK, "nothing is recorded yet")
        return
    try:
        reader = Reader(state_dir)
        try:
            dead = [post for post in reader.posts_not_delivered() if post.state.value == "dead"]
            outcome = verify(state_dir, reader.audit_head())
        finally:
            reader.close()
    except ClientAgentError as error:
        yield Finding("journal", Level.FAIL, error.message, "stop the daemon, move the file away, start it again")
        return
    level = Level.WARN if dead else Level.OK
    text = f"can be read; {len(dead)} results were refused for good" if dead else "can be read"
    yield Finding("journal", level, text, "`client-agent outbox list`" if dead else "")
    if outcome.problem is None:
        yield Finding("audit log", Level.OK, f"{outcome.entries} entries, none changed")
    else:
        yield Finding("audit log", Level.FAIL, outcome.problem, "`client-agent audit verify` names the place")


def _permissions(path: Path, state_dir: Path) -> Iterator[Finding]:
    """Nobody else may change the configuration, or read the state."""
    if os.name != "posix":
        return
    problems = [str(each) for each in (path, path.parent) if _others_can_replace(each)]
    if problems:
        text = f"others can change {', '.join(problems)}"
        yield Finding("permissions", Level.FAIL, text, f"chmod go-w {' '.join(problems)}")
    exposed = [str(each) for each in (state_dir, *_files(state_dir)) if _mode(each) & 0o077]
    if exposed:
        text = f"others can get at {', '.join(exposed[:5])}"
        yield Finding("permissions", Level.FAIL, text, f"chmod -R go= {state_dir}")
    if not problems and not exposed:
        yield Finding("permissions", Level.OK, "configuration and state are yours alone")


def _others_can_replace(path: Path) -> bool:
    mode = _mode(path)
    return bool(mode & (stat.S_IWGRP | stat.S_IWOTH)) and not mode & stat.S_ISVTX


def _files(state_dir: Path) -> list[Path]:
    return (
        [each for each in state_dir.iterdir() if each.is_file() and not each.is_symlink()] if state_dir.exists() else []
    )


def _mode(path: Path) -> int:
    """The access bits; none for what is not there."""
    try:
        return stat.S_IMODE(path.lstat().st_mode)
    except OSError:
        return 0
