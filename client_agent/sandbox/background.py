"""Commands that go on after their call was answered, each for the session that started it alone."""

from __future__ import annotations

import time

from client_agent.errors import NoSuchProcess, Unavailable
from client_agent.sandbox.jobs import Job
from client_agent.sandbox.output import OnOutput
from client_agent.sandbox.runner import Process, Sandbox

KEPT_ENDED = 8  # whose last words can still be read


class Background:
    """One of them. Its handle is the id of the call that started it."""

    def __init__(self, handle: str, session_id: str | None, argv: tuple[str, ...], job: Job, process: Process) -> None:
        self.handle = handle
        self.session_id = session_id
        self.argv = argv  # as the agent asked for it
        self.job = job
        self.process = process
        self.started_at = time.time()
        self.ends_at = self.started_at + (job.wall_s or 0)


class Processes:
    """Those of one workspace. They end with its sandbox at the latest, and so with the daemon."""

    def __init__(self, max_running: int) -> None:
        self._max_running = max_running
        self._starting = 0
        self._known: dict[str, Background] = {}

    @property
    def known(self) -> list[Background]:
        """Those that run and the last that ended, oldest first."""
        return list(self._known.values())

    async def start(
        self,
        handle: str,
        session_id: str | None,
        argv: tuple[str, ...],
        *,
        job: Job,
        sandbox: Sandbox,
        on_output: OnOutput | None,
    ) -> Background:
        """Starts a command and does not wait for it. Unavailable when as many run as may."""
        running = sum(each.process.is_running for each in self._known.values())
        if running + self._starting >= self._max_running:
            message = f"{running} processes run in the background already, and no more may: end one of them"
            raise Unavailable(message, code="too_many_processes")
        self._starting += 1
        try:
            process = await sandbox.launch(job, on_output)
        finally:
            self._starting -= 1
        started = self._known[handle] = Background(handle, session_id, argv, job, process)
        self._forget()
        return started

    def find(self, handle: str, session_id: str | None) -> Background | None:
        """The process of this name, unless it is another session's."""
        found = self._known.get(handle)
        return found if found is not None and found.session_id == session_id else None

    def get(self, handle: str, session_id: str | None) -> Background:
        """The same; NoSuchProcess when there is none. Another session's is not told from one that never was."""
        found = self.find(handle, session_id)
        if found is None:
            raise NoSuchProcess("this session has no such process: it may have ended long ago, or with the daemon")
        return found

    def end_session(self, session_id: str | None) -> None:
        """Ends whatever this session has running."""
        for each in self.known:
            if each.session_id == session_id:
                self.end(each.handle)

    def end(self, handle: str) -> bool:
        """Ends one, whosesoever it is. False when there is none that runs."""
        found = self._known.get(handle)
        if found is None or not found.process.is_running:
            return False
        found.process.end()
        return True

    def _forget(self) -> None:
        ended = [each.handle for each in self._known.values() if not each.process.is_running]
        for handle in ended[:-KEPT_ENDED]:
            del self._known[handle]
