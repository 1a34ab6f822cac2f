"""`client-agent undo`: takes a write back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Annotated, Any

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.exits import Exit
from client_agent.cli.printing import fail, print_json

# What can be asked, of a running daemon or, where there is none, of the state directory itself.
Ask = Callable[..., Any]


def undo(
    call: Annotated[
        str | None,
        typer.Argument(
            metavar="CALL", help="The tool_id, or the id of an undo; its beginning is enough.", show_default=False
        ),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", "-l", help="List what can be undone, newest first.")] = False,
    workspace: Annotated[
        str | None, typer.Option("--name", "-n", help="Of this workspace.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put back what a file held before write_file changed it. Shows the change first, and asks.

    A file that changed since is left alone. An undo can be undone. What commands changed is not kept, and cannot be.
    With --json and without --yes the change is only shown.
    """
    from client_agent.errors import ClientAgentError, ConfigError

    if (call is None) != listing:
        fail("say which CALL to undo, or --list what can be undone")
    with _asking() as ask:
        try:
            if call is None:
                _print_list(ask("undo.list", workspace=workspace), as_json)
            else:
                _undo(ask, {"id": call, "workspace": workspace}, yes=yes, as_json=as_json)
        except ConfigError:
            raise
        except ClientAgentError as error:
            if as_json:
                print_json({"undone": False, "code": error.code, "error": error.message})
                raise typer.Exit(Exit.FAILED) from None
            fail(error.message, Exit.FAILED)


def _undo(ask: Ask, which: dict[str, Any], *, yes: bool, as_json: bool) -> None:
    preview = ask("undo.preview", **which, whole=True)
    if not as_json:
        _print_preview(preview)
    if not yes and (as_json or not _confirm()):
        if as_json:
            print_json({"undone": False, **preview})
        raise typer.Exit(Exit.OK if as_json else Exit.FAILED)
    # Exactly this write: what was shown by the beginning of its id may not be alone any more.
    done = ask("undo.apply", id=preview["write"]["id"], workspace=preview["write"]["workspace"])
    if as_json:
        print_json({"undone": True, **done})
    else:
        typer.echo(f"undone; `client-agent undo {done['id']}` takes that back")


def _confirm() -> bool:
    if not sys.stdin.isatty():
        fail("nobody can be asked here: give --yes", Exit.NEEDS_APPROVAL)
    return typer.confirm("Undo it?")


def _print_list(told: dict[str, Any], as_json: bool) -> None:
    from client_agent.cli.history import show_time

    if as_json:
        print_json(told)
        return
    for each in told["writes"]:
        state = (
            f"undone by {each['undone_by']}" if each["undone_by"] else "" if each["kept"] else "was too large to keep"
        )
        what = f"{each['what']} (undoes {each['undoes']})" if each["undoes"] else each["what"]
        row = f"{each['id']}  {show_time(each['at'])}  {each['workspace']}  {what}  {each['path']}"
        typer.echo(f"{row}  {state}".rstrip())
    if not told["writes"]:
        typer.echo("nothing was written that is still kept")


_SAYS = {
    "restore": "{path} gets back what it held before",
    "remove": "{path} was made by this call, and is removed",
    "create": "{path} was removed by an undo, and comes back",
}


def _print_preview(preview: dict[str, Any]) -> None:
    write, change = preview["write"], preview["change"]
    typer.echo(f"{_SAYS[preview['action']].format(path=write['path'])}  (in {write['workspace']})")
    colour = sys.stdout.isatty()
    for line in change["lines"]:
        style = {"+": typer.colors.GREEN, "-": typer.colors.RED}.get(line[:1]) if colour else None
        typer.secho(f"  {line}", fg=style)
    typer.echo(f"  +{change['added']} −{change['removed']} lines")


@contextmanager
def _asking() -> Iterator[Ask]:
    from client_agent import config
    from client_agent.local_api.client import NoDaemon, connecting

    with ExitStack() as stack:
        try:
            ask: Ask = stack.enter_context(connecting(config.state_dir())).request
        except NoDaemon:
            ask = stack.enter_context(_alone())
        yield ask


@contextmanager
def _alone() -> Iterator[Ask]:
    """Without a daemon: in its place, and with its lock."""
    from client_agent import config
    from client_agent.assembly import open_place
    from client_agent.journal.journal import Journal
    from client_agent.journal.writes import Writes
    from client_agent.local_api.shown import show_undo, show_write
    from client_agent.undo import Undo

    path = config.config_path()
    settings = config.load(path) if path.exists() else config.Settings()
    state_dir = config.state_dir()
    with closing(Journal(state_dir)) as journal, closing(Writes(state_dir, settings.undo)) as writes:
        undo = Undo(writes, open_place(lambda: settings.workspaces), journal.note)

        def ask(op: str, **args: Any) -> Any:
            if op == "undo.list":
                return {"writes": [show_write(each) for each in undo.recent(workspace=args["workspace"])]}
            if op == "undo.preview":
                return show_undo(undo.preview(args["id"], args["workspace"]), whole=True)
            done = undo.apply(args["id"], args["workspace"], by="command line")
            return {"id": done.id, **show_undo(done.preview)}

        yield ask
