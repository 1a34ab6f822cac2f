"""`client-agent server`: the reference server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from client_agent.cli.printing import print_json

app = typer.Typer(help="The reference server: the other side of the protocol.", invoke_without_command=True)

SecretFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Where the tokens' secret is kept; made when missing.", show_default=False),
]


@app.callback()
def server(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = 8765,
    database: Annotated[
        str | None, typer.Option(metavar="URL", help="SQLAlchemy address of the database.", show_default=False)
    ] = None,
    secret_file: SecretFile = None,
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|SEED", help="Misbehave on purpose: a plan (TOML, JSON) or a number.", show_default=False
        ),
    ] = None,
) -> None:
    """Run the reference server. `client-agent server token USER` makes a token for it."""
    if context.invoked_subcommand is not None:
        return
    import logging
    from functools import partial

    from client_agent.server.auth import load_secret
    from client_agent.server.faults import load_plan
    from client_agent.server.faulty import running_with_faults
    from client_agent.server.runner import running, serve
    from client_agent.server.settings import ServerSettings

    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S")
    secret = load_secret(_secret_path(secret_file))
    settings = ServerSettings(
        jwt_secret=secret, host=host, port=port, database_url=database or f"sqlite:///{_state_dir() / 'server.db'}"
    )
    serve(
        settings,
        on_ready=lambda url: typer.echo(f"listening on {url}  (API at {url}/docs; Ctrl-C ends it)"),
        run=partial(running_with_faults, plan=load_plan(faults)) if faults else running,
    )


@app.command()
def token(
    user: Annotated[str, typer.Argument(help="The user the token is for.")],
    agent: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Make an agent's token: it may ask, never approve.", show_default=False),
    ] = None,
    days: Annotated[float, typer.Option(help="How long it is valid.")] = 1,
    secret_file: SecretFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")] = False,
) -> None:
    """Make a token for this server and print it."""
    from client_agent.server.auth import DAY_S, issue_token, load_secret

    made = issue_token(load_secret(_secret_path(secret_file)), user, ttl_s=days * DAY_S, agent_id=agent)
    if as_json:
        print_json({"token": made, "user": user, "agent": agent})
    else:
        typer.echo(made)


@app.command()
def confirm(
    code: Annotated[str, typer.Argument(help="As `client-agent login` shows it.")],
    user: Annotated[str, typer.Option(help="Whom the device works for.")],
    deny: Annotated[bool, typer.Option("--deny", help="Turn it down.")] = False,
    url: Annotated[str, typer.Option(help="Where the server listens.")] = "http://127.0.0.1:8765",
    secret_file: SecretFile = None,
) -> None:
    """Let a device log in that shows this code. Exit code 1 when there is no such code."""
    import httpx

    from client_agent.cli.exits import Exit
    from client_agent.cli.printing import fail
    from client_agent.protocol import routes
    from client_agent.server.auth import issue_token, load_secret

    bearer = issue_token(load_secret(_secret_path(secret_file)), user, ttl_s=60)
    body = {"user_code": code, "decision": "denied" if deny else "approved"}
    try:
        answer = httpx.post(
            url.rstrip("/") + routes.DEVICE, json=body, headers={"Authorization": f"Bearer {bearer}"}, trust_env=False
        )
    except httpx.HTTPError as error:
        fail(f"the server at {url} does not answer: {error}", Exit.SERVER)
    if answer.status_code != httpx.codes.OK:
        fail(answer.json().get("detail", answer.text), Exit.FAILED)
    typer.echo(f"{body['decision']}: {code} for {user}")


def _state_dir() -> Path:
    from client_agent import config

    directory = config.state_dir() / "server"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _secret_path(chosen: Path | None) -> Path:
    from_environment = os.environ.get("CLIENT_AGENT_SERVER_SECRET_FILE")
    return chosen or (Path(from_environment) if from_environment else _state_dir() / "secret")
