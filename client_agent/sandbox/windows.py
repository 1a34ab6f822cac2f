"""Windows: a restricted token inside a Job Object. Written by the system's documentation; it has never run there.

It bounds what a command uses and leaves nothing behind; it keeps a command neither from reading the user's files nor
from the network. It is therefore used only where the user has named it in so many words.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from client_agent.errors import Unavailable
from client_agent.sandbox.environment import user_name
from client_agent.sandbox.jobs import Ended, Job, Limits, Mechanism

_LIMIT_PROCESS_TIME, _LIMIT_ACTIVE_PROCESS, _LIMIT_JOB_MEMORY = 0x2, 0x8, 0x200
_DIE_ON_UNHANDLED_EXCEPTION, _KILL_ON_JOB_CLOSE = 0x400, 0x2000
_EXTENDED_LIMITS, _UI_RESTRICTIONS, _EVERY_UI_RESTRICTION = 9, 4, 0xFF
_DISABLE_MAX_PRIVILEGE, _LUA_TOKEN = 0x1, 0x4
_TOKEN_RIGHTS = 0x1 | 0x2 | 0x8 | 0x80  # assign primary, duplicate, query, adjust default
_CREATE_SUSPENDED, _UNICODE_ENVIRONMENT, _NO_WINDOW = 0x4, 0x400, 0x08000000
_USE_STD_HANDLES = 0x100
_INFINITE = 0xFFFFFFFF
_TICKS_PER_S = 10_000_000


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("per_process_user_time", ctypes.c_int64),
        ("per_job_user_time", ctypes.c_int64),
        ("limit_flags", ctypes.c_uint32),
        ("minimum_working_set", ctypes.c_size_t),
        ("maximum_working_set", ctypes.c_size_t),
        ("active_process_limit", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority_class", ctypes.c_uint32),
        ("scheduling_class", ctypes.c_uint32),
    )


class _ExtendedLimits(ctypes.Structure):
    _fields_ = (
        ("basic", _BasicLimits),
        ("io_counters", ctypes.c_uint64 * 6),
        ("process_memory_limit", ctypes.c_size_t),
        ("job_memory_limit", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    )


class _StartupInfo(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("reserved", ctypes.c_wchar_p),
        ("desktop", ctypes.c_wchar_p),
        ("title", ctypes.c_wchar_p),
        ("geometry", ctypes.c_uint32 * 7),
        ("flags", ctypes.c_uint32),
        ("show_window", ctypes.c_uint16),
        ("reserved_size", ctypes.c_uint16),
        ("reserved_bytes", ctypes.c_void_p),
        ("stdin", ctypes.c_void_p),
        ("stdout", ctypes.c_void_p),
        ("stderr", ctypes.c_void_p),
    )


class _ProcessInformation(ctypes.Structure):
    _fields_ = (
        ("process", ctypes.c_void_p),
        ("thread", ctypes.c_void_p),
        ("process_id", ctypes.c_uint32),
        ("thread_id", ctypes.c_uint32),
    )


def compose_limits(limits: Limits) -> _ExtendedLimits:
    """The limits of a Job Object: processes, memory and CPU time, and an end to all when its last handle is closed."""
    wanted = _ExtendedLimits()
    wanted.basic.limit_flags = (
        _LIMIT_PROCESS_TIME
        | _LIMIT_ACTIVE_PROCESS
        | _LIMIT_JOB_MEMORY
        | _DIE_ON_UNHANDLED_EXCEPTION
        | _KILL_ON_JOB_CLOSE
    )
    wanted.basic.per_process_user_time = limits.cpu_s * _TICKS_PER_S
    wanted.basic.active_process_limit = limits.processes
    wanted.job_memory_limit = limits.memory_bytes
    return wanted


def environment_block(variables: Mapping[str, str]) -> str:
    """Variables as CreateProcess takes them: sorted without regard to case, each ended by a NUL, and one more."""
    lines = (f"{name}={value}\0" for name, value in sorted(variables.items(), key=lambda item: item[0].upper()))
    return "".join(lines) + "\0"


class InJob:
    """A command in a Job Object."""

    def __init__(self, kernel: Any, job_object: int, process: int) -> None:
        self._kernel = kernel
        self._job_object = job_object
        self._process = process
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._follow())

    async def kill(self) -> None:
        if not self.ended.done():
            self._kernel.TerminateJobObject(self._job_object, 1)

    async def _follow(self) -> None:
        await asyncio.to_thread(self._kernel.WaitForSingleObject, self._process, _INFINITE)
        code = ctypes.c_uint32(0)
        self._kernel.GetExitCodeProcess(self._process, ctypes.byref(code))
        self._kernel.TerminateJobObject(self._job_object, 1)
        for handle in (self._process, self._job_object):
            self._kernel.CloseHandle(handle)
        self.ended.set_result(Ended((code.value & 0xFF) << 8, "exit"))


class JobObject:
    """Runs commands with a token that has no privileges, each in a Job Object of its own."""

    def __init__(self, limits: Limits, workspace: Path) -> None:
        self.mechanism = Mechanism(
            name="job-object",
            parts=("Job Object", "restricted token"),
            gaps=(
                "never run on such a machine",
                "files outside the workspace can be read",
                "the network is not cut off",
            ),
        )
        self.visible: tuple[Path, ...] = (Path(workspace.anchor),)
        self.user = user_name()
        self.home = self.tmp = ""
        self._limits = limits
        self._running: set[InJob] = set()

    async def open(self) -> None:
        """Nothing to make ready."""

    async def close(self) -> None:
        for running in list(self._running):
            await running.kill()
        if self._running:
            await asyncio.wait([running.ended for running in self._running])

    async def start(self, job: Job, environment: dict[str, str], directory: Path, fds: Sequence[int]) -> InJob:
        kernel = _library("kernel32")
        job_object = self._make_job(kernel)
        information = _ProcessInformation()
        started = _library("advapi32").CreateProcessAsUserW(
            _restricted_token(kernel),
            job.argv[0],
            ctypes.create_unicode_buffer(subprocess.list2cmdline(job.argv)),
            None,
            None,
            True,  # inherit handles: only those made inheritable below
            _CREATE_SUSPENDED | _UNICODE_ENVIRONMENT | _NO_WINDOW,
            ctypes.create_unicode_buffer(environment_block(environment)),
            str(directory),
            ctypes.byref(_startup(fds)),
            ctypes.byref(information),
        )
        if not started:
            raise Unavailable(f"{job.argv[0]} cannot be started: error {_last_error()}")
        if not kernel.AssignProcessToJobObject(job_object, information.process):
            kernel.TerminateProcess(information.process, 1)
            raise Unavailable(f"the command cannot be confined: error {_last_error()}")
        kernel.ResumeThread(information.thread)
        kernel.CloseHandle(information.thread)
        running = InJob(kernel, job_object, information.process)
        self._running.add(running)
        running.ended.add_done_callback(lambda _: self._running.discard(running))
        return running

    def _make_job(self, kernel: Any) -> int:
        job_object = kernel.CreateJobObjectW(None, None)
        wanted, interface = compose_limits(self._limits), ctypes.c_uint32(_EVERY_UI_RESTRICTION)
        for kind, value in ((_EXTENDED_LIMITS, wanted), (_UI_RESTRICTIONS, interface)):
            if not kernel.SetInformationJobObject(job_object, kind, ctypes.byref(value), ctypes.sizeof(value)):
                raise Unavailable(f"a Job Object cannot be limited: error {_last_error()}")
        return int(job_object)


def _library(name: str) -> Any:
    library = getattr(ctypes, "WinDLL")(name, use_last_error=True)  # noqa: B009 - exists on Windows only
    for function in ("CreateJobObjectW", "GetCurrentProcess"):
        with contextlib.suppress(AttributeError):
            getattr(library, function).restype = ctypes.c_void_p
    return library


def _last_error() -> int:
    return int(getattr(ctypes, "get_last_error")())  # noqa: B009 - exists on Windows only


def _restricted_token(kernel: Any) -> ctypes.c_void_p:
    """This user's token without its privileges and without the power of an administrator."""
    own, restricted = ctypes.c_void_p(), ctypes.c_void_p()
    security = _library("advapi32")
    if not security.OpenProcessToken(ctypes.c_void_p(kernel.GetCurrentProcess()), _TOKEN_RIGHTS, ctypes.byref(own)):
        raise Unavailable(f"the process token cannot be opened: error {_last_error()}")
    flags = _DISABLE_MAX_PRIVILEGE | _LUA_TOKEN
    if not security.CreateRestrictedToken(own, flags, 0, None, 0, None, 0, None, ctypes.byref(restricted)):
        raise Unavailable(f"a restricted token cannot be made: error {_last_error()}")
    return restricted


def _startup(fds: Sequence[int]) -> _StartupInfo:
    import msvcrt

    handles = [getattr(msvcrt, "get_osfhandle")(fd) for fd in fds]  # noqa: B009 - exists on Windows only
    for handle in handles:
        getattr(os, "set_handle_inheritable")(handle, True)  # noqa: B009 - exists on Windows only
    startup = _StartupInfo(size=ctypes.sizeof(_StartupInfo), flags=_USE_STD_HANDLES)
    startup.stdin, startup.stdout, startup.stderr = handles
    return startup
