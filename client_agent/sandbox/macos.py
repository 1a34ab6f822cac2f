"""macOS: a profile for sandbox-exec. Written by the system's documentation; it has never run on such a machine.

The profile denies everything and then allows; of several rules that match, the last one decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from client_agent.sandbox.jobs import Access, Job, Mechanism, Network
from client_agent.sandbox.protected import IsProtected, ProtectedPaths
from client_agent.sandbox.unconfined import Unconfined

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/System", "/Library/Developer", "/Library/Apple", "/Applications/Xcode.app",
    "/opt/homebrew", "/private/etc/ssl", "/private/etc/localtime", "/private/var/db/timezone", "/private/var/db/dyld",
)  # fmt: skip
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


def compose_profile(
    *, workspace: Path, tmp: str, access: Access, network: Network, toolchains: Sequence[Path], hidden: Iterable[str]
) -> str:
    """The profile of one command."""
    rules = [
        "(version 1)",
        "(deny default)",
        "(allow process-fork process-exec)",
        "(allow signal (target same-sandbox))",
        "(allow sysctl-read)",
        "(allow file-read-metadata)",
        '(allow file-read* (literal "/"))',
        *(f"(allow file-read* (subpath {_quote(path)}))" for path in (*_SYSTEM, *map(str, toolchains))),
        *(f"(allow file-read* file-write-data (literal {_quote(path)}))" for path in _DEVICES),
        f"(allow file-read* file-write* (subpath {_quote(tmp)}))",
        f"(allow file-read* (subpath {_quote(str(workspace))}))",
    ]
    if access is Access.WRITABLE:
        rules.append(f"(allow file-write* (subpath {_quote(str(workspace))}))")
        rules += [
            f"(deny file-write* (subpath {_quote(str(workspace / name))}))" for name in (".git/hooks", ".git/config")
        ]
        # The directory itself must not be moved away, with another put in its place.
        rules.append(f"(deny file-write-unlink (literal {_quote(str(workspace / '.git'))}))")
        rules.append(f"(deny file-write* (literal {_quote(str(workspace / '.client-agent.toml'))}))")
        rules.append("(deny file-write-setugid)")
    if network is Network.ON:
        rules += [
            "(allow network-outbound)",
            "(deny network-outbound (remote unix-socket))",
            '(allow network-outbound (literal "/private/var/run/mDNSResponder"))',
        ]
    rules += [f"(deny file-read* file-write* (subpath {_quote(str(workspace / path))}))" for path in sorted(hidden)]
    return "\n".join(rules) + "\n"


def _quote(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def make_backend(workspace: Path, toolchains: Sequence[Path], is_protected: IsProtected) -> Unconfined:
    """Runs each command under its own profile."""
    protected = ProtectedPaths(workspace, is_protected)

    def wrap(job: Job, tmp: str) -> list[str]:
        protected.refresh()
        profile = compose_profile(
            workspace=workspace,
            tmp=tmp,
            access=job.access,
            network=job.network,
            toolchains=toolchains,
            hidden=protected.hidden,
        )
        return [SANDBOX_EXEC, "-p", profile, *job.argv]

    gaps = (
        "never run on such a machine",
        "a process that leaves its process group can outlive its command, still confined",
        "memory and processes are not limited",
    )
    return Unconfined(Mechanism(name="seatbelt", parts=("sandbox-exec", "process group"), gaps=gaps), wrap)
