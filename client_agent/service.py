"""The daemon as a service of the user's own session: systemd, launchd, Task Scheduler.

Each manager knows how to write its file from the template in `packaging/services`, and how to be told of it. Only
systemd's was ever run (docs/service.md).
"""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import ClassVar
from xml.sax.saxutils import escape

import msgspec

from client_agent.errors import ClientAgentError

LABEL = "client-agent"
STATE_VARIABLE = "CLIENT_AGENT_STATE_DIR"
_TIMEOUT_S = 90.0


class ServiceError(ClientAgentError):
    """The service manager is not there, or says no."""

    code = "service_failed"


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
    """What the manager says."""

    manager: str
    installed: bool
    running: bool
    detail: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run, and with which environment."""

    program: tuple[str, ...]
    environment: dict[str, str]
    state_dir: Path


class Manager(ABC):
    """One service manager. Everything raises ServiceError."""

    name: ClassVar[str]
    template: ClassVar[str]

    @property
    @abstractmethod
    def file(self) -> Path:
        """Where the service is written down."""

    @abstractmethod
    def render(self, plan: Plan) -> str:
        """The text of that file."""

    @abstractmethod
    def register(self) -> None:
        """Lets it know of the file; nothing is started."""

    @abstractmethod
    def unregister(self) -> None: ...

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def is_running(self) -> tuple[bool, str]:
        """Whether it runs, and the manager's own words."""

    def install(self, plan: Plan) -> None:
        """Writes the file and tells the manager; one that is there is replaced. Nothing is started.

        Where the manager says no, the file is as it was: one that no manager knows would keep `start` from working.
        """
        before = self.file.read_bytes() if self.file.exists() else None
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.render(plan), encoding=self.encoding)
        try:
            self.register()
        except ServiceError as error:
            self.file.unlink() if before is None else self.file.write_bytes(before)
            remedy = "nothing was changed; `client-agent start` runs the daemon without a service"
            raise ServiceError(f"{error.message}\n{remedy}") from None

    encoding: ClassVar[str] = "utf-8"

    def uninstall(self) -> bool:
        """Stops it and leaves nothing of it; False when there was nothing."""
        if not self.file.exists():
            return False
        try:
            self.unregister()
        finally:
            self.file.unlink(missing_ok=True)
        return True

    def state(self) -> ServiceState:
        if not self.file.exists():
            return ServiceState(manager=self.name, installed=False, running=False)
        try:
            running, detail = self.is_running()
        except ServiceError as error:
            running, detail = False, error.message
        return ServiceState(manager=self.name, installed=True, running=running, detail=detail)

    @abstractmethod
    def mention(self, state_dir: Path) -> str:
        """How its file says which state directory it is for."""

    def serves(self, state_dir: Path) -> bool:
        """Whether the installed service is the one of this state directory."""
        return self.file.exists() and self.mention(state_dir.absolute()) in self.file.read_text(encoding=self.encoding)


class Systemd(Manager):
    name = "systemd"
    template = "client-agent.service"

    @property
    def file(self) -> Path:
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return home / "systemd" / "user" / f"{LABEL}.service"

    def render(self, plan: Plan) -> str:
        environment = " ".join(quote_for_systemd(f"{name}={value}") for name, value in plan.environment.items())
        program = " ".join(quote_for_systemd(part, variables=True) for part in plan.program)
        return _fill(self.template, program=program, environment=environment)

    def mention(self, state_dir: Path) -> str:
        return quote_for_systemd(f"{STATE_VARIABLE}={state_dir}")

    def register(self) -> None:
        _run("systemctl", "--user", "daemon-reload")
        _run("systemctl", "--user", "enable", f"{LABEL}.service")

    def unregister(self) -> None:
        _run("systemctl", "--user", "disable", "--now", f"{LABEL}.service")
        self.file.unlink(missing_ok=True)
        _run("systemctl", "--user", "daemon-reload")

    def start(self) -> None:
        _run("systemctl", "--user", "start", f"{LABEL}.service")

    def is_running(self) -> tuple[bool, str]:
        wanted = "ActiveState,SubState,Result,NRestarts"
        told = _run("systemctl", "--user", "show", f"{LABEL}.service", "--property", wanted)
        facts = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
        return facts.get("ActiveState") == "active", ", ".join(f"{name}={value}" for name, value in facts.items())


class Launchd(Manager):
    """Written from the documentation, never run on a Mac."""

    name = "launchd"
    template = "client-agent.plist"

    @property
    def file(self) -> Path:
        return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"

    def render(self, plan: Plan) -> str:
        pairs = (_pair(name, value) for name, value in plan.environment.items())
        return _fill(
            self.template,
            label=LABEL,
            program="\n        ".join(f"<string>{escape(part)}</string>" for part in plan.program),
            environment="\n        ".join(pairs),
            log=escape(str(plan.state_dir / "service.log")),
        )

    def register(self) -> None:
        """It looks into that directory by itself, at the next login."""

    def mention(self, state_dir: Path) -> str:
        return _pair(STATE_VARIABLE, str(state_dir))

    def unregister(self) -> None:
        _run("launchctl", "bootout", f"{self._domain}/{LABEL}")

    def start(self) -> None:
        _run("launchctl", "bootstrap", self._domain, str(self.file))

    def is_running(self) -> tuple[bool, str]:
        told = _run("launchctl", "print", f"{self._domain}/{LABEL}")
        state = next((line.strip() for line in told.splitlines() if line.strip().startswith("state =")), "")
        return state == "state = running", state

    @property
    def _domain(self) -> str:
        return f"gui/{os.getuid()}"


class TaskScheduler(Manager):
    """Written from the documentation, never run on Windows. A task has the environment of its user, and no other."""

    name = "Task Scheduler"
    template = "client-agent.xml"
    encoding = "utf-16"

    @property
    def file(self) -> Path:
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / LABEL / "task.xml"

    def render(self, plan: Plan) -> str:
        user = f"{os.environ.get('USERDOMAIN', '')}\\{os.environ.get('USERNAME', '')}".lstrip("\\")
        arguments = subprocess.list2cmdline([*plan.program[1:], "run"])
        return _fill(self.template, user=escape(user), program=escape(plan.program[0]), arguments=escape(arguments))

    def register(self) -> None:
        _run("schtasks", "/Create", "/F", "/TN", LABEL, "/XML", str(self.file))

    def unregister(self) -> None:
        _run("schtasks", "/Delete", "/F", "/TN", LABEL)

    def start(self) -> None:
        _run("schtasks", "/Run", "/TN", LABEL)

    def is_running(self) -> tuple[bool, str]:
        told = _run("schtasks", "/Query", "/TN", LABEL, "/FO", "LIST")
        state = next((line.strip() for line in told.splitlines() if line.startswith("Status:")), "")
        return state.endswith("Running"), state

    def mention(self, state_dir: Path) -> str:
        """It cannot: such a task is for the usual directory."""
        return "" if STATE_VARIABLE not in os.environ else str(state_dir)


def _pair(name: str, value: str) -> str:
    return f"<key>{escape(name)}</key><string>{escape(value)}</string>"


def find_manager(platform: str = sys.platform) -> Manager:
    """The one of this system."""
    if platform == "darwin":
        return Launchd()
    return TaskScheduler() if platform == "win32" else Systemd()


def quote_for_systemd(text: str, *, variables: bool = False) -> str:
    """One word of a unit file. A command line also replaces $NAME, an assignment does not."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{escaped.replace("$", "$$") if variables else escaped}"'


def find_templates() -> Path:
    """Beside the code where it was installed; in a checkout, where they are kept."""
    installed = Path(__file__).parent / "services"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "packaging" / "services"


def _fill(template: str, **values: str) -> str:
    return Template((find_templates() / template).read_text(encoding="utf-8")).substitute(values)


def _run(*command: str) -> str:
    return _run_in(os.environ, command)


def _run_in(environment: Mapping[str, str], command: Sequence[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the system's own service manager, with words of ours
            command, env=dict(environment), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceError(f"`{' '.join(command)}` cannot be run: {error}") from None
    if done.returncode != 0:
        raise ServiceError(f"`{' '.join(command)}`: {(done.stderr or done.stdout).strip()}")
    return done.stdout
