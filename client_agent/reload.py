"""The settings in force, and what the configuration files say now.

A file that tightens is in force at once, one that is broken leaves the last good settings in force, and what widens
waits until the user has seen it and said yes. What waits is remembered over a restart of the daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from client_agent import config
from client_agent.assembly import check_settings
from client_agent.config import Loaded, Settings
from client_agent.errors import ConfigError, UserError
from client_agent.policy.widening import Comparison, Widening, compare

# What was in force when something began to wait: a daemon that starts anew compares with it, not with nothing.
BASELINE_FILE = "unconfirmed.json"
# An editor may empty a file before it fills it: only what is the same after this long is read.
SETTLE_S = 0.1
# The files are looked at this often, and what could not be used is tried again.
LOOK_S = 0.5
RECHECK_S = 5.0
_STEP_MS = 100
_DEBOUNCE_MS = 200

Stamps: TypeAlias = dict[Path, tuple[int, int, int] | None]

log = logging.getLogger(__name__)


class Source(Protocol):
    """Where settings come from."""

    @property
    def files(self) -> list[Path]:
        """The files themselves; those of the workspaces are known from the settings."""
        ...

    def read(self) -> Loaded:
        """What the files say now. Raises ConfigError."""
        ...


class FileSource:
    """The global configuration file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def files(self) -> list[Path]:
        return [self._path.absolute(), Path(os.path.realpath(self._path))]

    def read(self) -> Loaded:
        loaded = config.load_usable(self._path)
        if not loaded.named.workspaces:
            raise ConfigError(f"{self._path} has no workspaces: add a [workspaces.NAME] table")
        check_settings(loaded.named)
        return loaded


class FixedSource:
    """Settings given once, tightened by the workspaces' own files."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.files: list[Path] = []

    def read(self) -> Loaded:
        loaded = config.tighten_all(self._settings)
        check_settings(loaded.named)
        return loaded


class Pending(msgspec.Struct, frozen=True):
    """Settings that wait for the user. `digest` stands for exactly these, and no others."""

    digest: str
    settings: Settings
    widenings: tuple[Widening, ...]
    since: float
    declined: bool = False  # the user has seen it and said no; it is in the files all the same


class Configuration:
    """One daemon's. `in_force` is what the user has said yes to and what can be used, last good values included."""

    def __init__(self, source: Source, state_dir: Path) -> None:
        """Reads for the first time. Raises ConfigError when nothing of it can be used."""
        self._source = source
        self._baseline_file = state_dir / BASELINE_FILE
        self._changing = asyncio.Lock()
        self._told = asyncio.Event()  # that a file changed
        self.problem: str | None = None  # why the files cannot be used as they are
        self.pending: Pending | None = None
        self.apply: Callable[[Settings], Awaitable[None]] = _apply_nothing
        loaded = source.read()
        if not loaded.settings.workspaces:
            raise ConfigError("\n".join(loaded.problems.values()) or "there is no workspace")
        self.named, self.problems = loaded.named, loaded.problems  # as the files say; and of single workspaces
        baseline = self._read_baseline()
        # What was changed while no daemon ran counts as said by the user, who started this one.
        self._agreed = loaded.named if baseline is None else self._settle(baseline, loaded.named)
        self.in_force = config.without(self._agreed, self.problems)

    async def reread(self) -> None:
        """Puts in force what tightens, and lets wait what widens."""
        async with self._changing:
            try:
                loaded = await asyncio.to_thread(self._source.read)
            except ConfigError as error:
                self._complain(error.message)
                return
            running = self.in_force.workspaces
            self._complain("\n".join(said for name, said in loaded.problems.items() if name in running) or None)
            self.named, self.problems = loaded.named, loaded.problems
            await self._agree(self._settle(self._agreed, self._with_last_good(loaded)))

    async def confirm(self, digest: str) -> Pending:
        """Puts in force what the user was shown. Raises UserError when something else waits by now, or nothing."""
        async with self._changing:
            confirmed, self.pending = self._find_pending(digest), None
            await self._agree(confirmed.settings)
            return confirmed

    async def decline(self, digest: str) -> Pending:
        """Remembers that the user does not want what was shown, until the files change. Raises UserError."""
        async with self._changing:
            self.pending = msgspec.structs.replace(self._find_pending(digest), declined=True)
            return self.pending

    def _find_pending(self, digest: str) -> Pending:
        if self.pending is None:
            raise UserError("nothing waits to be confirmed", code="nothing_pending")
        if self.pending.digest != digest:
            raise UserError("this is not what was shown: look again", code="binding_differs")
        return self.pending

    async def _agree(self, settings: Settings) -> None:
        self._keep_baseline(settings)
        self._agreed = settings
        # What runs goes on with its last good values; what cannot be used does not begin.
        unusable = [name for name in self.problems if name not in self.in_force.workspaces]
        usable = config.without(settings, unusable)
        if usable != self.in_force:
            log.info("the configuration has changed, and is in force")
        self.in_force = usable
        await self.apply(usable)

    async def watch(self) -> None:
        """Rereads whenever a file changes, until cancelled."""
        stopped = threading.Event()
        # A thread of its own costs a tenth of handing each look to one, and a disk that hangs holds up nobody.
        looking = (asyncio.get_running_loop(), stopped)
        threading.Thread(target=self._look_often, args=looking, name="configuration", daemon=True).start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._reread_when_told())
        finally:
            stopped.set()

    async def _listen(self) -> None:
        """Hears of the source's own files at once.

        Workspaces are only looked at: who watches a directory is woken by every file that a call opens in it.
        """
        from watchfiles import awatch

        names = {path.name for path in self._source.files}
        # Directories, since a file that is replaced is another file; and only what can be watched.
        directories = {path.parent for path in self._source.files if path.parent.is_dir()}
        if not directories:
            return
        changes = awatch(
            *directories,
            watch_filter=lambda change, path: Path(path).name in names,
            step=_STEP_MS,
            debounce=_DEBOUNCE_MS,
            recursive=False,
        )
        try:
            async with contextlib.aclosing(changes):
                async for _ in changes:
                    self._told.set()
        except Exception:
            log.exception("the configuration file cannot be watched; it is looked at now and then")

    def _look_often(self, loop: asyncio.AbstractEventLoop, stopped: threading.Event) -> None:
        """Tells when the files are others than they were."""
        seen = _look_at(self._watched_files())
        while not stopped.wait(LOOK_S):
            before, seen = seen, _look_at(self._watched_files())
            if seen != before:
                with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody wants to know any more
                    loop.call_soon_threadsafe(self._told.set)

    async def _reread_when_told(self) -> None:
        """Rereads after the files have changed and come to rest; and now and then what could not be used."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RECHECK_S if self.problems else None):
                    await self._told.wait()
            self._told.clear()
            await self._rest()
            await self.reread()

    async def _rest(self) -> None:
        """Waits until the files stay as they are."""
        before = None
        while (now := await asyncio.to_thread(_look_at, self._watched_files())) != before:
            before = now
            await asyncio.sleep(SETTLE_S)

    def _watched_files(self) -> set[Path]:
        roots = {config.root_of(workspace) for workspace in self.in_force.workspaces.values()}
        return {*self._source.files, *(root / config.WORKSPACE_FILE for root in roots)}

    def _with_last_good(self, loaded: Loaded) -> Settings:
        """What the files say; a workspace that runs and cannot be used as they say stays as it is."""
        running = self.in_force.workspaces
        last_good = {name: running[name] for name in loaded.problems if name in running}
        return msgspec.structs.replace(loaded.named, workspaces={**loaded.named.workspaces, **last_good})

    def _settle(self, before: Settings, after: Settings) -> Settings:
        """What may be in force now; the rest of it is pending."""
        compared = compare(before, after)
        if not compared.widenings:
            self.pending = None
            return after
        digest = hashlib.sha256(msgspec.json.encode(after, order="deterministic")).hexdigest()
        if self.pending is None or self.pending.digest != digest:
            self.pending = Pending(digest, after, compared.widenings, time.time())
            log.warning("the changed configuration allows more: `client-agent config confirm` shows what, and asks")
        return _checked(before, compared)

    def _complain(self, problem: str | None) -> None:
        """Once for each problem."""
        if problem is not None and problem != self.problem:
            log.error("the configuration cannot be used, the last good one stays in force: %s", problem)
        self.problem = problem

    def _read_baseline(self) -> Settings | None:
        """What was in force when something began to wait; None when nothing waits."""
        try:
            return msgspec.json.decode(self._baseline_file.read_bytes(), type=Settings)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError):
            return Settings()  # nothing is known to be confirmed: everything is asked about

    def _keep_baseline(self, in_force: Settings) -> None:
        """Remembered, so that a crash does not turn waiting into a yes."""
        try:
            if self.pending is None:
                self._baseline_file.unlink(missing_ok=True)
            else:
                _write_private(self._baseline_file, msgspec.json.encode(in_force))
        except OSError as error:
            log.error("that a change waits for you cannot be remembered: %s", error)  # noqa: TRY400


def _checked(before: Settings, compared: Comparison) -> Settings:
    """The tighter of old and new, or the old where the two cannot be mixed."""
    try:
        check_settings(compared.in_force)
    except ConfigError:
        return before
    return compared.in_force


def _write_private(path: Path, content: bytes) -> None:
    """Replaced in one step, and on the disk when this returns."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _look_at(files: set[Path]) -> Stamps:
    return {path: _stamp(path) for path in files}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


async def _apply_nothing(settings: Settings) -> None:
    """Before there is a daemon to apply it to."""
