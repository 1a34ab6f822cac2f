"""`client-agent doctor`: what is well here, and what to do about the rest."""

from __future__ import annotations

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.exits import Exit
from client_agent.cli.printing import print_json

_MARKS = {"ok": "✓", "warn": "!", "fail": "✗"}


def doctor(as_json: AsJson = False) -> None:
    """Look at configuration, tokens, servers, clock, sandbox, PATH, disk, journal and permissions; change nothing.

    Exit code: 0 when nothing fails, warnings aside; 1 when something does.
    """
    import asyncio

    import msgspec

    from client_agent import config
    from client_agent.approvals.honest import reveal
    from client_agent.doctor import Doctor, Level

    findings = asyncio.run(Doctor(config.config_path(), config.state_dir()).examine())
    well = all(finding.level is not Level.FAIL for finding in findings)
    if as_json:
        print_json({"ok": well, "findings": msgspec.to_builtins(findings)})
    else:
        for finding in findings:
            typer.echo(f"{_MARKS[finding.level]} {finding.check}: {reveal(finding.text)}")
            if finding.remedy:
                typer.echo(f"    → {finding.remedy}")
    raise typer.Exit(Exit.OK if well else Exit.FAILED)
