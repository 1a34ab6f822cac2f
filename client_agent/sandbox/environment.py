"""What a command is told about the machine: variables built from nothing, programs looked up outside the workspace."""
# A PATH is searched as shells do.
# ruff: noqa: PTH113, PTH118

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

SANE_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
LOGIN_SHELL_TIMEOUT_S = 5.0
_NAMELESS = "agent"
_PLAIN_ZONE = re.compile(r"[A-Za-z0-9_+\-/]{1,64}")

# What programs of a kind read from the environment, `*` for any ending. Only to say which of them were withheld.
_READ_BY_ANY = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "LD_LIBRARY_PATH",
)
_READ_BY: dict[str, tuple[str, ...]] = {
    "git": ("GIT_*", "SSH_AUTH_SOCK", "SSH_ASKPASS", "GITHUB_TOKEN", "GITLAB_TOKEN"),
    "npm": ("NPM_*", "NODE_*"),
    "node": ("NPM_*", "NODE_*"),
    "python": ("PYTHON*", "PIP_*", "UV_*", "VIRTUAL_ENV", "CONDA_*", "PYENV_*"),
    "pip": ("PYTHON*", "PIP_*", "VIRTUAL_ENV", "CONDA_*"),
    "make": ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LDLIBS", "MAKEFLAGS", "PKG_CONFIG_PATH"),
    "gcc": ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_*"),
    "cargo": ("CARGO_*", "RUST*"),
    "go": ("GO*",),
    "java": ("JAVA_*", "JDK_*", "MAVEN_*", "GRADLE_*"),
}
_SAME_AS = {
    "nodejs": "node",
    "npx": "npm",
    "g++": "gcc",
    "cc": "gcc",
    "mvn": "java",
    "gradle": "java",
    "rustc": "cargo",
}


def user_name() -> str:
    """What the user is called inside. The superuser, who has no power there, goes by another name."""
    if sys.platform == "win32":
        return os.environ.get("USERNAME", _NAMELESS)
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name if os.getuid() != 0 else _NAMELESS
    except KeyError:
        return _NAMELESS


def build_environment(
    *, path: Sequence[str], home: str, tmp: str, user: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """What every command gets. Of the daemon's own only the time zone is taken over."""
    built = {
        "PATH": os.pathsep.join(path),
        "HOME": home,
        "TMPDIR": tmp,
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/sh",
        "LANG": "C",  # all the rest is the same in both, and would be read from a dozen files by every program
        "LC_CTYPE": "C.UTF-8",
        "TERM": "dumb",
    }
    zone = environ.get("TZ", "")
    if _PLAIN_ZONE.fullmatch(zone) and ".." not in zone and not zone.startswith("/"):
        built["TZ"] = zone
    return built


def withheld_names(program: str, environ: Mapping[str, str], given: Mapping[str, str]) -> tuple[str, ...]:
    """The user's variables that a program of this kind would have read and did not get. Names, never values."""
    base = re.sub(r"[\d.]+$", "", Path(program).name.lower().removesuffix(".exe"))
    wanted = (*_READ_BY_ANY, *_READ_BY.get(_SAME_AS.get(base, base), ()))
    missing = (name for name in environ if name not in given)
    return tuple(sorted(name for name in missing if any(fnmatchcase(name.upper(), want) for want in wanted)))


def sane_path(search_path: str, workspace: Path, visible: Sequence[Path]) -> tuple[str, ...]:
    """The directories of a PATH that a command may use: absolute, visible to it, and outside the workspace."""
    kept: dict[str, None] = {}
    for entry in (*search_path.split(os.pathsep), *SANE_PATH):
        if not entry.startswith("/") and sys.platform != "win32":
            continue
        real = Path(os.path.realpath(entry))
        if real.is_relative_to(workspace) or not any(real.is_relative_to(root) for root in visible):
            continue
        kept[os.path.normpath(entry)] = None
    return tuple(kept)


def find_program(name: str, path: Sequence[str], workspace: Path) -> str | None:
    """The absolute path of a program by its bare name. One that lies in the workspace is never found."""
    if not name or "/" in name or name in (".", ".."):
        return None
    inside = os.path.normcase(os.path.join(workspace, ""))
    for directory in path:
        candidate = os.path.join(directory, name)
        if not os.access(candidate, os.X_OK) or not os.path.isfile(candidate):
            continue
        if not os.path.normcase(os.path.realpath(candidate)).startswith(inside):
            return candidate
    return None


async def login_shell_path(timeout_s: float = LOGIN_SHELL_TIMEOUT_S) -> str | None:
    """The PATH that the user's login shell sets; None when it does not say so in time."""
    if sys.platform == "win32":
        return os.environ.get("PATH")
    import pwd

    account = pwd.getpwuid(os.getuid())
    shell = account.pw_shell or "/bin/sh"
    environment = {"HOME": account.pw_dir, "USER": account.pw_name, "SHELL": shell, "TERM": "dumb", "PATH": os.defpath}
    mark = "client-agent-path:"
    try:
        process = await asyncio.create_subprocess_exec(
            shell, "-ilc", f'printf "\\n{mark}%s\\n" "$PATH"',
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            env=environment, cwd="/", start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None
    try:
        output, _ = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line.startswith(mark)]
    return lines[-1].removeprefix(mark) if lines else None
