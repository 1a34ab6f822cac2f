"""The sandbox: runs the commands of one workspace, confined, within limits, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from client_agent.errors import AccessRefused, Unavailable
from client_agent.sandbox import environment as env
from client_agent.sandbox.jobs import Ended, Ending, Job, Limits, Mechanism, Outcome, Stdin
from client_agent.sandbox.output import Capture, Live, OnOutput, texts

KILL_GRACE_S = 1.0
INPUT_PATIENCE_S = 5.0
STREAMS = ("stdout", "stderr")
_READ_BYTES = 1 << 16
_READS_AT_ONCE = 4
_WRITE_RETRY_S = 0.01
_BUFFER = bytearray(_READ_BYTES)  # for all: what is read is copied before anything else can be read
_ENDING_TASKS: set[asyncio.Task[None]] = set()


class Confined(Protocol):
    """A command as its mechanism sees it."""

    ended: asyncio.Future[Ended]

    async def kill(self) -> None: ...


class Backend(Protocol):
    """A mechanism at work for one workspace."""

    mechanism: Mechanism
    visible: tuple[Path, ...]
    home: str
    tmp: str
    user: str

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def start(self, job: Job, environment: dict[str, str], directory: Path, fds: Sequence[int]) -> Confined: ...


class Process:
    """A running command: can be waited for, looked at, written to and ended."""

    def __init__(self, job: Job, limits: Limits, withheld: tuple[str, ...], on_output: OnOutput | None) -> None:
        self._job = job
        self._limits = limits
        self._withheld = withheld
        self._loop = asyncio.get_running_loop()
        self._started = time.monotonic()
        self._ended_by: Ending | None = None
        self._end: Ended | None = None
        self._duration_s = 0.0
        self._confined: Confined | None = None
        self._live = Live(on_output, time.monotonic) if on_output is not None else None
        self._captures = {
            name: Capture(limits.output_bytes, _spool_path(job.spool, name), limits.spool_bytes) for name in STREAMS
        }
        self._open_fds: dict[int, str] = {}
        self._stdin_fd = -1
        self._writing = asyncio.Lock()  # what two callers type is not mixed
        self._outcome: asyncio.Future[Outcome] = self._loop.create_future()
        self._is_over = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        return not self._outcome.done()

    @property
    def ended_by(self) -> Ending | None:
        """What ended it; None while it runs, and when it could not be started."""
        failed = self.is_running or self._outcome.exception() is not None
        return None if failed else self._outcome.result().ended_by

    @property
    def age_s(self) -> float:
        return self._duration_s or time.monotonic() - self._started

    @property
    def is_truncated(self) -> bool:
        """Whether more was written than fits."""
        return sum(capture.total_bytes for capture in self._captures.values()) > self._limits.output_bytes

    async def wait(self) -> Outcome:
        """What became of it, once it and all it started are gone. Cancelling this leaves the command running."""
        await self._is_over.wait()
        return self._outcome.result()

    async def kill(self, why: Ending = Ending.CANCELLED) -> None:
        """Ends the command and all it has started. The outcome says why."""
        if self._ended_by is None and self._end is None:
            self._ended_by = why
        if self._confined is not None:
            with contextlib.suppress(Unavailable):
                await self._confined.kill()

    def end(self, why: Ending = Ending.CANCELLED) -> None:
        """The same without waiting until it has been asked for."""
        task = self._loop.create_task(self.kill(why))
        _ENDING_TASKS.add(task)
        task.add_done_callback(_ENDING_TASKS.discard)

    async def write(self, data: bytes, patience_s: float = INPUT_PATIENCE_S) -> int:
        """Writes to the standard input of a job with `Stdin.PIPE`; how many bytes the command took in that time."""
        view = memoryview(data)
        deadline = self._loop.time() + patience_s
        async with self._writing:
            while len(view) > 0:
                if self._stdin_fd < 0:
                    raise Unavailable("the process takes no input: it has ended, or its input is closed")
                try:
                    view = view[os.write(self._stdin_fd, view) :]
                except BlockingIOError:
                    if self._loop.time() >= deadline:
                        break
                    await asyncio.sleep(_WRITE_RETRY_S)
                except BrokenPipeError:
                    self.close_stdin()
        return len(data) - len(view)

    def close_stdin(self) -> None:
        if self._stdin_fd >= 0:
            os.close(self._stdin_fd)
            self._stdin_fd = -1

    def snapshot(self) -> tuple[str, str]:
        """What has been written so far to stdout and stderr, within the limit."""
        stdout, stderr = (self._captures[name].copy() for name in STREAMS)
        return texts(stdout, stderr, self._limits.output_bytes)

    async def start(self, backend: Backend, environment: dict[str, str], directory: Path) -> None:
        """Starts the command. Called once, by the sandbox."""
        fds = self._open_pipes()
        try:
            self._confined = await backend.start(self._job, environment, directory, fds)
        except BaseException:
            self._close_all()
            raise
        finally:
            for fd in fds:
                os.close(fd)
        self._timer = self._loop.call_later(self._job.wall_s or self._limits.wall_s, self.end, Ending.TIMEOUT)
        self._confined.ended.add_done_callback(self._take_end)

    def on_done(self, callback: Callable[[], None]) -> None:
        self._outcome.add_done_callback(lambda _: callback())

    def _open_pipes(self) -> list[int]:
        """The far ends of stdin, stdout and stderr."""
        if self._job.stdin is Stdin.PIPE:
            stdin, self._stdin_fd = os.pipe()
            os.set_blocking(self._stdin_fd, False)
        else:
            stdin = os.open(os.devnull, os.O_RDONLY)
        far_ends = [stdin]
        for name in STREAMS:
            near, far = os.pipe()
            os.set_blocking(near, False)
            self._open_fds[near] = name
            self._loop.add_reader(near, self._read, near)
            far_ends.append(far)
        return far_ends

    def _read(self, fd: int) -> None:
        name = self._open_fds[fd]
        capture = self._captures[name]
        for _ in range(_READS_AT_ONCE):
            try:
                count = os.readv(fd, [_BUFFER])
            except BlockingIOError:
                return
            if count == 0:
                self._close_read(fd)
                if self._end is not None and not self._open_fds:
                    self._finish()
                return
            data = memoryview(_BUFFER)[:count]
            capture.feed(data)
            if self._live is not None:
                self._live.feed(name, data)
        if capture.total_bytes > self._limits.output_total_bytes:
            self.end(Ending.OUTPUT)

    def _close_read(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        del self._open_fds[fd]
        os.close(fd)

    def _close_all(self) -> None:
        for fd in list(self._open_fds):
            self._close_read(fd)
        self.close_stdin()
        for capture in self._captures.values():
            capture.close()

    def _take_end(self, ended: asyncio.Future[Ended]) -> None:
        self._end = ended.result()
        self._duration_s = time.monotonic() - self._started
        if self._timer is not None:
            self._timer.cancel()
        if self._open_fds:  # what was written before the end is still in there
            self._timer = self._loop.call_later(KILL_GRACE_S, self._finish)
        else:
            self._finish()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._close_all()
        if self._end is None or self._outcome.done():
            return
        if self._end.failed_errno:
            reason = os.strerror(self._end.failed_errno)
            self._outcome.set_exception(Unavailable(f"{self._job.argv[0]} cannot be started: {reason}"))
        else:
            self._outcome.set_result(self._make_outcome(self._end, self._duration_s))
        self._is_over.set()

    def _make_outcome(self, end: Ended, duration_s: float) -> Outcome:
        number = os.WTERMSIG(end.status) if os.WIFSIGNALED(end.status) else 0
        captures = self._captures["stdout"], self._captures["stderr"]
        stdout, stderr = texts(*captures, self._limits.output_bytes)
        return Outcome(
            ended_by=_ending(end.reason, number, self._ended_by),
            exit_code=os.WEXITSTATUS(end.status) if os.WIFEXITED(end.status) else None,
            signal=_signal_name(number) if number else None,
            stdout=stdout,
            stderr=stderr,
            truncated=self.is_truncated,
            duration_s=duration_s,
            spooled=tuple(capture.spool_path for capture in captures if capture.spool_path is not None),
            withheld=self._withheld,
        )


def _ending(reason: str, number: int, asked: Ending | None) -> Ending:
    if reason in ("memory", "processes", "stopped"):
        return asked if reason == "stopped" and asked is not None else Ending(reason)
    if asked is not None and number == signal.SIGKILL:
        return asked
    if number in (signal.SIGXCPU, signal.SIGXFSZ):
        return Ending.CPU if number == signal.SIGXCPU else Ending.FILE_SIZE
    return Ending.SIGNAL if number else Ending.EXITED


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _spool_path(base: Path | None, name: str) -> Path | None:
    return base.with_name(f"{base.name}.{name}") if base is not None else None


class Sandbox:
    """Runs commands of one workspace. Whatever it has started is gone when it is closed, or when this process dies."""

    def __init__(
        self,
        workspace: Path,
        backend: Backend,
        *,
        limits: Limits,
        search_path: str,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._workspace = workspace
        self._backend = backend
        self._limits = limits
        self._environ = dict(environ)
        self._withheld: dict[str, tuple[str, ...]] = {}
        self._path = env.sane_path(search_path, workspace, backend.visible)
        self._variables = env.build_environment(
            path=self._path, home=backend.home, tmp=backend.tmp, user=backend.user, environ=self._environ
        )
        self._processes: set[Process] = set()

    @property
    def mechanism(self) -> Mechanism:
        return self._backend.mechanism

    async def open(self) -> None:
        """Makes ready; Unavailable when the mechanism does not work here after all."""
        await self._backend.open()

    async def close(self) -> None:
        """Ends everything; returns when it is gone."""
        for process in list(self._processes):
            await process.kill(Ending.STOPPED)
        await self._backend.close()
        for process in list(self._processes):
            with contextlib.suppress(Unavailable):
                await process.wait()

    def find_program(self, name: str) -> str | None:
        """Where a program of this name is, among what commands can see; never one inside the workspace."""
        return env.find_program(name, self._path, self._workspace)

    async def launch(self, job: Job, on_output: OnOutput | None = None) -> Process:
        """Starts a command and returns at once."""
        if job.access not in self.mechanism.accesses:
            raise Unavailable(f"commands that write cannot be confined here: {'; '.join(self.mechanism.gaps)}")
        directory = self._find_directory(job.directory)
        variables = {**self._variables, **job.environment} if job.environment else self._variables
        process = Process(job, self._limits, self._withheld_from(job.argv[0], variables), on_output)
        await process.start(self._backend, variables, directory)
        self._processes.add(process)
        process.on_done(lambda: self._processes.discard(process))
        return process

    def _find_directory(self, name: str) -> Path:
        """Where a command starts. Only a courtesy: inside, no way leads out of the workspace in any case."""
        if name == ".":
            return self._workspace
        directory = Path(os.path.realpath(self._workspace / name))
        if not directory.is_relative_to(self._workspace):
            raise AccessRefused(f"{name!r} lies outside the workspace")
        return directory

    def _withheld_from(self, program: str, given: Mapping[str, str]) -> tuple[str, ...]:
        if program not in self._withheld:
            self._withheld[program] = env.withheld_names(program, self._environ, given)
        return self._withheld[program]

    async def run(self, job: Job, on_output: OnOutput | None = None) -> Outcome:
        """Runs a command to its end. Cancelling this ends the command with all it started."""
        process = await self.launch(job, on_output)
        try:
            return await process.wait()
        except asyncio.CancelledError:
            await asyncio.shield(self._end(process))
            raise

    async def _end(self, process: Process) -> None:
        await process.kill(Ending.CANCELLED)
        with contextlib.suppress(Unavailable, TimeoutError):
            await asyncio.wait_for(process.wait(), KILL_GRACE_S)
