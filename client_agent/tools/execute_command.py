"""`execute_command`: one program, confined, waited for or not. Which ones may run is decided before, by the policy."""

from __future__ import annotations

from functools import partial
from typing import Any

from client_agent.errors import CommandEnded, MissingFile, Unavailable
from client_agent.protocol.tools import ExecuteCommand
from client_agent.sandbox.jobs import Access, Ending, Job, Network, Outcome, Stdin
from client_agent.tools.tool import ToolContext, spec_of

# What a person and an agent are told when a limit ended a command.
_ENDED: dict[Ending, tuple[str, str, str]] = {
    Ending.TIMEOUT: ("timeout", "TimeoutError", "it ran longer than {timeout} s"),
    Ending.CANCELLED: ("cancelled", "CancelledError", "it was cancelled"),
    Ending.STOPPED: ("stopped", "CancelledError", "the daemon was stopped"),
    Ending.MEMORY: ("limit_memory", "LimitError", "it took more memory than the limit"),
    Ending.PROCESSES: ("limit_processes", "LimitError", "it started more processes than the limit"),
    Ending.CPU: ("limit_cpu", "LimitError", "it took more processor time than the limit"),
    Ending.FILE_SIZE: ("limit_file_size", "LimitError", "it wrote a larger file than the limit"),
    Ending.OUTPUT: ("limit_output", "LimitError", "it wrote more output than any limit could allow"),
}


class ExecuteCommandTool:
    spec = spec_of("execute_command")
    cancellable = True
    preview = None

    async def run(self, params: ExecuteCommand, context: ToolContext) -> dict[str, Any]:
        if context.sandbox is None:
            raise Unavailable("commands cannot be run here: no sandbox was set up", code="no_sandbox")
        sandbox = await context.sandbox.get()
        program = sandbox.find_program(params.command)
        if program is None:
            raise MissingFile(f"{params.command!r} is not installed on this machine", code="program_missing")
        job, permit = _job(program, params, context), context.permit
        on_output = partial(context.on_output, permit.tool_id) if context.on_output is not None else None
        if not params.background:
            return _report(await sandbox.run(job, on_output), job)
        argv = (params.command, *params.args)
        started = await context.sandbox.processes.start(
            permit.tool_id, permit.session_id, argv, job=job, sandbox=sandbox, on_output=on_output
        )
        return {"process_id": started.handle, "running": True, "lifetime": job.wall_s}


def _job(program: str, params: ExecuteCommand, context: ToolContext) -> Job:
    limits, permit = context.workspace.limits, context.permit
    return Job(
        argv=(program, *params.args),
        access=Access.READ_ONLY if permit.read_only else Access.WRITABLE,
        network=Network.ON if permit.network else Network.OFF,
        wall_s=limits.background_max_s if params.background else min(params.timeout, limits.command_max_s),
        stdin=Stdin.PIPE if params.background else Stdin.EMPTY,
        is_lasting=params.background,
        spool=context.spool_dir / permit.tool_id if context.spool_dir else None,
    )


def _report(outcome: Outcome, job: Job) -> dict[str, Any]:
    output = show_outcome(outcome)
    if outcome.ended_by in _ENDED:
        code, wire_type, words = _ENDED[outcome.ended_by]
        message = f"the command was ended: {words.format(timeout=job.wall_s)}"
        raise CommandEnded(message, code=code, wire_type=wire_type, output=output)
    return output


def show_outcome(outcome: Outcome) -> dict[str, Any]:
    """What became of a command, as the contract has it."""
    output: dict[str, Any] = {
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "exit_code": outcome.exit_code,
        "execution_time": round(outcome.duration_s, 6),
        "truncated": outcome.truncated,
    }
    if outcome.signal is not None:
        output["signal"] = outcome.signal
    if outcome.withheld:
        output["withheld_environment"] = list(outcome.withheld)
    return output
