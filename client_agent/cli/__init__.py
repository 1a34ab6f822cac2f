"""The command line. Parses, calls, prints; decides nothing.

Commands import what they need when they run, so that `--help` and completion answer at once.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point `client-agent`."""
    from client_agent.cli.app import app
    from client_agent.cli.exits import Exit
    from client_agent.errors import ClientAgentError, JournalError, LinkError, UserError

    try:
        app()
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except ClientAgentError as error:
        print(f"client-agent: {error.message}", file=sys.stderr)
        if isinstance(error, UserError):
            sys.exit(Exit.USAGE)
        if isinstance(error, LinkError):
            sys.exit(Exit.SERVER)
        if isinstance(error, JournalError) and error.code == "already_running":
            sys.exit(Exit.ALREADY_RUNNING)
        sys.exit(Exit.FAILED)
