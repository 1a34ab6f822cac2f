"""Which mechanism this machine offers, and which is chosen. Never none by accident."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import msgspec

from client_agent.errors import Unavailable
from client_agent.sandbox.jobs import Limits, Mechanism, NoMechanism
from client_agent.sandbox.protected import IsProtected
from client_agent.sandbox.runner import Backend, Sandbox

_SYSCTL = Path("/proc/sys")
_Make: TypeAlias = Callable[[], Backend]


class Confinement(StrEnum):
    """What the user has chosen. Only AUTO keeps every promise; the others show wherever commands are shown."""

    AUTO = "auto"
    JOB_OBJECT = "job-object"
    NONE = "none"


async def open_sandbox(
    workspace: Path,
    *,
    is_protected: IsProtected,
    limits: Limits | None = None,
    toolchains: Sequence[Path] = (),
    search_path: str = "",
    confinement: Confinement = Confinement.AUTO,
    environ: Mapping[str, str] = os.environ,
) -> Sandbox:
    """The best sandbox this machine has for a workspace; Unavailable, with the remedy, when it has none."""
    root = Path(os.path.realpath(workspace))  # noqa: ASYNC240 - once, and local
    limits = limits or Limits()
    refusals: list[str] = []
    for make in _choices(root, limits, toolchains, is_protected, confinement):
        try:
            backend = make()
            sandbox = Sandbox(root, backend, limits=limits, search_path=search_path, environ=environ)
            await sandbox.open()
        except Unavailable as error:
            refusals.append(error.message)
        else:
            _tell_what_was_better(backend, refusals)
            return sandbox
    found = explain(refusals)
    raise Unavailable(f"{found.reason}. {found.remedy}", code="no_sandbox", remedy=found.remedy)


def _tell_what_was_better(backend: Backend, refusals: Sequence[str]) -> None:
    """To what a lesser mechanism cannot do belongs why it was taken, and what the user can do about it."""
    if refusals:
        found = explain(refusals)
        gaps = (*backend.mechanism.gaps, f"{found.reason}. {found.remedy}")
        backend.mechanism = msgspec.structs.replace(backend.mechanism, gaps=gaps)


async def detect(confinement: Confinement = Confinement.AUTO) -> Mechanism | NoMechanism:
    """What would confine commands here, tried on an empty workspace."""
    with tempfile.TemporaryDirectory(prefix="client-agent-") as empty:
        try:
            sandbox = await open_sandbox(Path(empty), is_protected=lambda _: None, confinement=confinement)
        except Unavailable as error:
            return NoMechanism(reason=error.message, remedy=error.details.get("remedy", ""))
        try:
            return sandbox.mechanism
        finally:
            await sandbox.close()


def _choices(
    root: Path, limits: Limits, toolchains: Sequence[Path], is_protected: IsProtected, confinement: Confinement
) -> list[_Make]:
    """What is to be tried, best first. Each is imported only where it can work."""
    if confinement is Confinement.NONE:
        return [_make_unconfined]
    platform: str = sys.platform  # a plain string, or type checkers would see one platform only
    if platform == "linux":
        from client_agent.sandbox.landlocked import Landlocked
        from client_agent.sandbox.namespaces import Namespaces

        return [
            lambda: Namespaces(root, limits=limits, toolchains=toolchains, is_protected=is_protected),
            lambda: Landlocked(root, limits=limits, toolchains=toolchains, is_protected=is_protected),
        ]
    if platform == "darwin":
        from client_agent.sandbox.macos import make_backend

        return [lambda: make_backend(root, toolchains, is_protected)]
    if confinement is Confinement.JOB_OBJECT:
        from client_agent.sandbox.windows import JobObject

        return [lambda: JobObject(limits, root)]
    return []


def _make_unconfined() -> Backend:
    from client_agent.sandbox.unconfined import Unconfined

    gap = "commands run as you, with all your files and your network"
    return Unconfined(Mechanism(name="none", parts=("process group",), gaps=(gap,)))


def explain(refusals: Sequence[str]) -> NoMechanism:
    """Why nothing confines commands here, and what the user can do, as far as the machine tells."""
    platform: str = sys.platform
    if platform != "linux":
        remedy = 'Set sandbox.mechanism = "job-object" to run commands that are bounded but not confined, or use WSL'
        return NoMechanism(reason="this system has no mechanism that keeps commands in the workspace", remedy=remedy)
    reason = "; ".join(refusals)
    for name, forbids, remedy in _KNOWN_CAUSES:
        if _read(name) == forbids:
            return NoMechanism(reason=reason, remedy=remedy)
    remedy = "Linux 5.12 or newer is needed, and inside a container the right to make user namespaces"
    return NoMechanism(reason=reason, remedy=remedy)


_KNOWN_CAUSES = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor forbids user namespaces: install the profile described in docs/platforms.md",
    ),
    ("kernel/unprivileged_userns_clone", "0", "Allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1"),
    ("user/max_user_namespaces", "0", "Allow user namespaces: sysctl -w user.max_user_namespaces=10000"),
)


def _read(name: str) -> str:
    try:
        return (_SYSCTL / name).read_text().strip()
    except OSError:
        return ""
