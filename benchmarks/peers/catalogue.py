"""Which peers there are: how each is installed, found and started."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from benchmarks.peers import http, mcp
from benchmarks.peers.peer import Peer, PeerFailed

_INSTALL_S = 400
# Some registries lack the newest of this one, which a peer's dependency asks for by its exact version.
_NPM_OVERRIDES = {"typedarray.prototype.slice": "1.0.x"}


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A peer by name. Each has a directory of its own below the scratch directory."""

    name: str
    install: Callable[[Path], str]  # into this directory, where it is not yet there; the version
    start: Callable[[Path, Path], Awaitable[Peer]]  # from this directory, on this workspace


def _npm(package: str) -> Callable[[Path], str]:
    def install(place: Path) -> str:
        described = place / "node_modules" / package / "package.json"
        if not described.exists():
            if shutil.which("npm") is None:
                raise PeerFailed("npm is not installed")
            (place / "package.json").write_text(json.dumps({"private": True, "overrides": _NPM_OVERRIDES}))
            _run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", package], place)
        return str(json.loads(described.read_text())["version"])

    return install


def _pip(*packages: str, python: tuple[int, int] = (3, 11)) -> Callable[[Path], str]:
    def install(place: Path) -> str:
        if not (place / "complete").exists():
            _run([_find_python(python), "-m", "venv", "--clear", "venv"], place)
            _run(["venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", *packages], place)
            (place / "complete").touch()
        (library,) = (place / "venv" / "lib").glob("python*/site-packages")
        (found,) = importlib.metadata.distributions(name=packages[0], path=[str(library)])
        return found.version

    return install


def _find_python(least: tuple[int, int]) -> str:
    """This Python where it is new enough, or a newer one on the PATH."""
    if sys.version_info >= least:
        return sys.executable
    names = [f"python3.{minor}" for minor in range(least[1], least[1] + 4)]
    found = next((path for name in names if (path := shutil.which(name)) and _works(path)), None)
    if found is None:
        raise PeerFailed(f"it needs Python {least[0]}.{least[1]}")
    return found


def _works(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def _run(argv: list[str], place: Path) -> None:
    try:
        done = subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerFailed(str(error)) from None
    if done.returncode:
        raise PeerFailed((done.stderr or done.stdout).strip()[-300:])


def _mcp(kind: type[mcp.McpPeer], script: str) -> Callable[[Path, Path], Awaitable[Peer]]:
    async def start(place: Path, workspace: Path) -> Peer:
        argv = ["node", str(place / "node_modules" / script), str(workspace)]
        peer = kind(await mcp.spawn(argv, place / "home", workspace))
        await peer.greet()
        return peer  # type: ignore[return-value]

    return start


def _http(kind: type[http.HttpPeer], *argv: str) -> Callable[[Path, Path], Awaitable[Peer]]:
    async def start(place: Path, workspace: Path) -> Peer:
        peer = kind(*await http.spawn([str(place / "venv" / "bin" / argv[0]), *argv[1:]], place / "home"))
        try:
            await peer.greet()
        except PeerFailed:
            await peer.stop()
            raise
        return peer  # type: ignore[return-value]

    return start


CANDIDATES = (
    Candidate(
        name="mcp server-filesystem",
        install=_npm("@modelcontextprotocol/server-filesystem"),
        start=_mcp(mcp.FilesystemServer, "@modelcontextprotocol/server-filesystem/dist/index.js"),
    ),
    Candidate(
        name="desktop-commander",
        install=_npm("@wonderwhy-er/desktop-commander"),
        start=_mcp(mcp.DesktopCommander, "@wonderwhy-er/desktop-commander/dist/index.js"),
    ),
    Candidate(
        name="swe-rex",
        install=_pip("swe-rex"),
        start=_http(http.SweRex, "swerex-remote", "--host", "127.0.0.1", "--port", "{port}", "--auth-token", "{key}"),
    ),
    Candidate(
        name="openhands-agent-server",
        install=_pip("openhands-agent-server", "openhands-tools", python=(3, 12)),
        start=_http(http.OpenHands, "agent-server", "--host", "127.0.0.1", "--port", "{port}"),
    ),
)
