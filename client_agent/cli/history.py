"""`client-agent why`, `audit` and `grants`: what was decided, on what grounds, and whether the record is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.exits import Exit
from client_agent.cli.printing import fail, print_json
from client_agent.cli.state import open_permissions

if TYPE_CHECKING:
    from client_agent.journal.records import CallRecord

audit = typer.Typer(help="The log of every decision.", no_args_is_help=True)
grants = typer.Typer(help="What you allowed for a session, beyond one call.", no_args_is_help=True)


def why(
    call: Annotated[str, typer.Argument(metavar="CALL", help="The tool_id; its beginning is enough.")],
    as_json: AsJson = False,
) -> None:
    """Say why a call ran, asked or was refused: risk and its facts, rule, grant, approver, outcome."""
    from client_agent import config
    from client_agent.journal.reader import reading

    with reading(config.state_dir()) as reader:
        found = reader.calls_by_id(call)
    if not found:
        fail(f"no recorded call begins with {call!r}")
    if as_json:
        print_json({"calls": [_to_json(record) for record in found]})
        return
    for record in found:
        _explain(record)


def output(
    call: Annotated[str, typer.Argument(metavar="CALL", help="The tool_id; its beginning is enough.")],
    stream: Annotated[str, typer.Option(help="stdout or stderr.")] = "stdout",
) -> None:
    """Show the whole output of a command whose result could hold only its head and tail."""
    import shutil
    import sys

    from client_agent import config
    from client_agent.assembly import spool_dir
    from client_agent.journal.reader import reading

    with reading(config.state_dir()) as reader:
        found = reader.calls_by_id(call)
    if not found:
        fail(f"no recorded call begins with {call!r}")
    path = spool_dir(found[0].workspace) / f"{found[0].tool_id}.{'stderr' if stream == 'stderr' else 'stdout'}"
    if not path.exists():
        fail(f"nothing was kept of it: its {stream} fitted the result whole, or was forgotten", Exit.FAILED)
    with path.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)


def _explain(record: CallRecord) -> None:
    import msgspec

    from client_agent.approvals.honest import reveal

    params = reveal(msgspec.json.encode(record.params).decode()) if record.params is not None else "(no longer kept)"
    rows = {
        "asked": f"{show_time(record.created_at)}  in {record.workspace}",
        "parameters": params,
        "risk": record.risk or "never judged",
        "decision": f"{record.verdict or '-'} ({record.decision_code or '-'})",
        "rule": record.rule_id,
        "grant": record.grant_id,
        "answered by": record.approver,
        "outcome": record.state.value + (f" ({record.failure_code})" if record.failure_code else ""),
        "started": show_time(record.started_at),
        "finished": show_time(record.finished_at),
    }
    typer.echo(f"{record.tool_name}  {record.tool_id}")
    for name, value in rows.items():
        if value:
            typer.echo(f"  {name:12} {value}")
        if name == "risk":
            for reason in record.reasons:
                typer.echo(f"  {'':12} · {reveal(reason.text)}")


@audit.command()
def verify(as_json: AsJson = False) -> None:
    """Follow the chain of hashes through the whole log. Exit code 1 when anything was changed, removed or put in."""
    import msgspec

    from client_agent import config
    from client_agent.errors import JournalError
    from client_agent.journal.reader import reading
    from client_agent.journal.verification import verify as follow

    recorded = None
    try:
        with reading(config.state_dir()) as reader:
            recorded = reader.audit_head()
    except JournalError as error:
        typer.echo(f"client-agent: without the journal's word: {error.message}", err=True)
    outcome = follow(config.state_dir(), recorded)
    if as_json:
        print_json({"ok": outcome.problem is None, **msgspec.structs.asdict(outcome)})
    elif outcome.problem is None:
        typer.echo(f"{outcome.entries} entries, unbroken" + (f"; {outcome.torn}" if outcome.torn else ""))
    else:
        place = f"{outcome.file}, line {outcome.line}: " if outcome.file else ""
        typer.echo(f"{place}{outcome.problem}")
    raise typer.Exit(Exit.OK if outcome.problem is None else Exit.FAILED)


@audit.command()
def show(
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last entries.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the last entries of the log."""
    from client_agent import config

    path = config.state_dir() / ("audit.jsonl" if as_json else "audit.log")
    if not path.exists():
        fail(f"nothing has been recorded yet: there is no {path}", Exit.FAILED)
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file.readlines()[-lines:]:
            typer.echo(line, nl=False)


@grants.command("list")
def list_grants(as_json: AsJson = False) -> None:
    """List what holds now."""
    import time

    from client_agent.policy.decision import CallClass

    with open_permissions() as permissions:
        standing = permissions.grant_store.list(now=time.time())
    rows: list[dict[str, Any]] = [
        {
            "id": grant.id,
            "workspace": grant.workspace,
            "session_id": grant.session_id,
            "covers": CallClass.from_text(grant.command_class).label if grant.command_class else "everything",
            "max_risk": grant.max_risk.name,
            "expires_at": grant.expires_at,
        }
        for grant in standing
    ]
    if as_json:
        print_json({"grants": rows})
        return
    for row in rows:
        until = show_time(row["expires_at"])
        typer.echo(f"{row['id']}  {row['workspace']}  {row['covers']!r} ≤{row['max_risk']}  until {until}")
    if not rows:
        typer.echo("nothing is granted: every call that must be asked is asked")


@grants.command()
def revoke(
    grant: Annotated[str, typer.Argument(metavar="ID", help="As `grants list` shows it, or 'all'.")],
) -> None:
    """End a grant; the next such call is asked again."""
    import time

    with open_permissions() as permissions:
        store = permissions.grant_store
        chosen = [
            each for each in store.list(now=time.time()) if grant == "all" or (grant and each.id.startswith(grant))
        ]
        for each in chosen:
            store.revoke(each.id, now=time.time())
    if not chosen:
        fail(f"no grant begins with {grant!r}: see `client-agent grants list`")
    typer.echo(f"revoked: {len(chosen)}")


def show_time(moment: float | None) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(moment, UTC):%F %TZ}" if moment else ""


def _to_json(record: CallRecord) -> dict[str, Any]:
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(record)
    return told
