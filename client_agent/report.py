"""A bundle for a bug report: what helps to find a fault, and nothing that is nobody else's business.

No content of any file, no parameters of calls, no tokens. Every text in it goes through the same mask; tokens that are
known here are looked for by their very characters, and the home directory becomes `~`.
"""

from __future__ import annotations

import asyncio
import collections
import io
import os
import platform
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from client_agent import __version__, config, logbook
from client_agent.doctor import Doctor
from client_agent.errors import ClientAgentError
from client_agent.journal.reader import reading
from client_agent.link.credentials import Credentials
from client_agent.local_api.client import connecting
from client_agent.protocol.masking import mask, mask_text

LOG_LINES = 1_000
CALLS = 5_000
MIN_SECRET_CHARS = 6  # anything shorter is in every word
_HIDDEN = "***"
_PACKAGES = ("aiohttp", "httpx", "keyring", "msgspec", "typer", "watchfiles", "websockets")


class Part(msgspec.Struct, frozen=True):
    """One file of the bundle, and what a person is told is in it."""

    name: str
    holds: str
    content: bytes


def gather(path: Path, state_dir: Path) -> list[Part]:
    """The parts of the bundle, redacted. What cannot be had says why instead."""
    findings = asyncio.run(Doctor(path, state_dir).examine())
    parts = [
        ("versions.json", "versions of client-agent, Python, the system and libraries", _versions()),
        ("doctor.json", "what `client-agent doctor` says", msgspec.to_builtins(findings)),
        ("config.json", "the configuration, secrets and program tables left out", _try(lambda: _config(path))),
        ("status.json", "what `client-agent status` says", _try(lambda: _status(state_dir))),
        ("calls.json", "how many calls ended how, by tool", _try(lambda: _statistics(state_dir))),
        ("log.json", f"the last {LOG_LINES} lines of the log", _log(state_dir)),
    ]
    redact = _Redactor(path, state_dir)
    return [Part(name, holds, redact(value)) for name, holds, value in parts]


def write(parts: list[Part], target: Path) -> None:
    """The bundle, readable by this user alone. Raises FileExistsError rather than replace a file."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for part in parts:
            entry = tarfile.TarInfo(f"client-agent-report/{part.name}")
            entry.size, entry.mode, entry.mtime = len(part.content), 0o600, int(time.time())
            bundle.addfile(entry, io.BytesIO(part.content))


def _versions() -> dict[str, Any]:
    return {
        "client_agent": __version__,
        "python": sys.version,
        "system": platform.platform(),
        "packages": {name: metadata.version(name) for name in _PACKAGES},
    }


def _config(path: Path) -> Any:
    loaded = config.load_usable(path)
    told: dict[str, Any] = msgspec.to_builtins(loaded.named)
    for workspace in told["workspaces"].values():
        workspace["policy"]["programs"] = sorted(workspace["policy"]["programs"])
        for key in ("deny", "refused_extensions", "remove_programs"):
            workspace["policy"][key] = len(workspace["policy"][key])
    return {"settings": told, "problems": loaded.problems}


def _status(state_dir: Path) -> Any:
    with connecting(state_dir) as daemon:
        return daemon.request("status")


def _statistics(state_dir: Path) -> Any:
    with reading(state_dir) as reader:
        calls = reader.recent_calls(limit=CALLS)
        posts = reader.posts_not_delivered()
    counted = collections.Counter(
        (call.tool_name[:40], call.verdict or "-", call.state.value, call.failure_code or "-") for call in calls
    )
    rows = [[*kind, count] for kind, count in counted.most_common()]
    return {"calls": rows, "not_delivered": dict(collections.Counter(post.state.value for post in posts))}


def _log(state_dir: Path) -> Any:
    with closing(logbook.Reader(state_dir)) as reader:
        lines = collections.deque(reader.past(), maxlen=LOG_LINES)
    return [msgspec.to_builtins(line) for line in lines]


def _try(get: Any) -> Any:
    try:
        return get()
    except ClientAgentError as error:
        return {"not_available": error.message}


class _Redactor:
    """Takes out what must not leave: known tokens, what looks like a secret, whose home this is."""

    def __init__(self, path: Path, state_dir: Path) -> None:
        known = {secret for secret in _known_secrets(path, state_dir) if len(secret) >= MIN_SECRET_CHARS}
        self._secrets = sorted(known, key=len, reverse=True)
        self._home = str(Path.home())

    def __call__(self, value: Any) -> bytes:
        masked = self._redact(mask({"value": value})["value"])
        return msgspec.json.format(msgspec.json.encode(masked), indent=2)

    def _redact(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redact_text(value)
        if isinstance(value, dict):
            return {self._redact_text(str(key)): self._redact(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._redact(item) for item in value]
        return value

    def _redact_text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        text = mask_text(text)
        return text.replace(self._home, "~") if len(self._home) > 1 else text


def _known_secrets(path: Path, state_dir: Path) -> Iterator[str]:
    """Tokens of the configured servers, and passwords in proxy addresses."""
    for name in ("CLIENT_AGENT_TOKEN", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy"):
        if found := os.environ.get(name):
            yield found
    try:
        settings = config.load_usable(path).named
    except ClientAgentError:
        return
    if settings.link.proxy:
        yield settings.link.proxy
    for server in {workspace.server for workspace in settings.workspaces.values()}:
        credentials = Credentials(server, state_dir)
        try:
            credentials.token()
        except ClientAgentError:
            continue
        kept = credentials.tokens
        if kept is not None:
            yield from filter(None, (kept.token, kept.refresh_token))
