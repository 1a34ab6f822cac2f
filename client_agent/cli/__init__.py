"""The command line. Parses, calls, prints; decides nothing.

Commands import what they need when they run, so that `--help` and completion answer at once.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point `client-agent`."""
    from client_agent.cli.exits import Exit
    from client_agent.errors import ClientAgentError

    try:
        if sys.argv[1:] in (["status"], ["status", "--json"]):  # asked often: see `standing`
            from client_agent.cli.standing import show_status

            sys.exit(show_status(as_json="--json" in sys.argv))
        if sys.argv[1:2] == ["run"]:  # stays for long: see `foreground`
            from client_agent.cli.foreground import read_plainly, run_daemon

            if (arguments := read_plainly(sys.argv[2:])) is not None:
                run_daemon(**arguments)
                return
        from client_agent.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except ClientAgentError as error:
        print(f"client-agent: {error.message}", file=sys.stderr)
        sys.exit(_code_of(error))


def _code_of(error: BaseException) -> int:
    from client_agent.cli.exits import Exit
    from client_agent.errors import LinkError, UserError

    code = getattr(error, "code", "")
    if code == "no_daemon":
        return Exit.NOT_RUNNING
    if code == "already_running":
        return Exit.ALREADY_RUNNING
    if code == "not_started":
        return int(error.exit_code)  # type: ignore[attr-defined]
    if isinstance(error, UserError) or code == "downgrade":  # a newer program's files stay newer: no use to try again
        return Exit.USAGE
    return Exit.SERVER if isinstance(error, LinkError) else Exit.FAILED
