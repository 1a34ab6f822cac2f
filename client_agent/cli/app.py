"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from client_agent import __version__
from client_agent.cli import (
    approvals,
    calls,
    configuration,
    conformance,
    demo,
    doctor,
    history,
    init,
    lifecycle,
    login,
    logs,
    metrics,
    outbox,
    pausing,
    processes,
    report,
    rules,
    run,
    server,
    service,
    status,
    ui,
    undo,
)

app = typer.Typer(
    name="client-agent",
    help="Lets AI agents on a server use files and tools on this laptop, under your rules.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"client-agent {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


app.command()(init.init)
app.command()(login.login)
app.command()(login.logout)
app.command()(login.whoami)
app.command()(lifecycle.start)
app.command()(lifecycle.stop)
app.command()(lifecycle.restart)
app.command()(status.status)
app.command()(pausing.pause)
app.command()(pausing.resume)
app.command()(run.run)
app.command()(processes.ps)
app.command()(ui.ui)
app.add_typer(approvals.app, name="approvals")
app.command()(demo.demo)
app.command()(calls.call)
app.command()(calls.check)
app.command()(calls.tools)
app.add_typer(rules.app, name="rules")
app.add_typer(history.grants, name="grants")
app.command()(history.why)
app.command()(history.output)
app.command()(undo.undo)
app.add_typer(history.audit, name="audit")
app.add_typer(outbox.app, name="outbox")
app.command()(doctor.doctor)
app.command()(logs.logs)
app.command()(metrics.metrics)
app.command()(report.report)
app.command()(conformance.conformance)
app.command()(configuration.paths)
app.add_typer(configuration.app, name="config")
app.add_typer(service.app, name="service")
app.add_typer(server.app, name="server")
