"""`client-agent login`, `logout` and `whoami`: the token for a server, and where it is kept."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.exits import Exit
from client_agent.cli.printing import fail, print_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from client_agent.config import Settings
    from client_agent.link.credentials import Credentials, Tokens
    from client_agent.link.login import DeviceCode, TokenEndpoint

Server = Annotated[
    str | None,
    typer.Argument(metavar="URL", help="The server; the configured one when left out.", show_default=False),
]
_OK, _UNAUTHORIZED = 200, 401


def login(
    server: Server = None,
    token: Annotated[bool, typer.Option("--token", help="Ask for a token here, instead of a login by code.")] = False,
    token_stdin: Annotated[bool, typer.Option("--token-stdin", help="Read a token from standard input.")] = False,
) -> None:
    """Log in to a server: by a code that you confirm there, or with a token you have.

    The token is kept in the system's keyring; where there is none, in a file that only you can read. A running daemon
    takes it at once. Exit code 4 when the server does not accept it.
    """
    import asyncio

    settings = _settings()
    url = choose_server(server, settings)
    given = _read_token(by_prompt=token, by_stdin=token_stdin)
    asyncio.run(log_in(url, settings, given))


def logout(server: Server = None) -> None:
    """Forget the token, here and, where it can be renewed, on the server. A running daemon is disconnected."""
    import asyncio

    settings = _settings()
    asyncio.run(_log_out(choose_server(server, settings), settings))


def whoami(server: Server = None, as_json: AsJson = False) -> None:
    """Show who you are to a server, as its answer to the token says. Exit code 4 when it does not accept it."""
    import asyncio

    settings = _settings()
    facts = asyncio.run(_who(choose_server(server, settings), settings))
    if as_json:
        print_json(facts)
    elif facts["kept_in"] is None:
        fail(facts["problem"], Exit.SERVER)
    else:
        for name, value in facts.items():
            typer.echo(f"{name.replace('_', ' '):12} {'-' if value is None else value}")
    raise typer.Exit(Exit.OK if facts["accepted"] else Exit.SERVER)


async def log_in(url: str, settings: Settings, given: str | None) -> None:
    """Gets a token, tries it, keeps it, and tells the daemon."""
    from client_agent.link.credentials import Tokens

    credentials = _credentials(url)
    async with talking_to(url, settings) as endpoint:
        tokens = Tokens(given) if given is not None else await _by_code(endpoint)
        accepted = await _is_accepted(endpoint, url, settings, tokens.token)
    if accepted is False:
        fail(f"{url} does not accept this token; nothing was changed", Exit.SERVER)
    if accepted is None:
        typer.echo("the token could not be tried: no workspace of this server is configured, or it is away", err=True)
    source = await credentials.keep(tokens)
    if source.value == "file":
        typer.echo(f"There is no keyring here. The token is kept unencrypted in {credentials.file}, "
                   "which only you can read.", err=True)  # fmt: skip
    await credentials.reload()
    typer.echo(f"logged in to {url} as {_honest(credentials.subject or 'somebody')}")
    if credentials.source is not None and credentials.source.value == "environment":
        typer.echo("CLIENT_AGENT_TOKEN is set, and goes before what was stored now", err=True)
    _tell_daemon()


async def _log_out(url: str, settings: Settings) -> None:
    from client_agent.errors import LinkError

    credentials = _credentials(url)
    await credentials.reload()
    tokens = credentials.tokens
    credentials.forget()
    if tokens is not None and tokens.refresh_token:
        try:
            async with talking_to(url, settings) as endpoint:
                await endpoint.revoke(tokens.refresh_token)
        except LinkError as error:
            typer.echo(f"forgotten here, but not on the server: {error.message}", err=True)
    _tell_daemon()
    typer.echo(f"logged out of {url}" if tokens is not None else f"not logged in to {url}")
    if credentials.problem == "" and tokens is not None and not tokens.refresh_token:
        typer.echo("the token itself is good until it expires", err=True)


async def _who(url: str, settings: Settings) -> dict[str, Any]:
    from datetime import UTC, datetime

    from client_agent.errors import LinkError

    credentials = _credentials(url)
    problem = None
    try:
        bearer = credentials.token()
        async with talking_to(url, settings) as endpoint:
            accepted = await _is_accepted(endpoint, url, settings, bearer)
    except LinkError as error:
        accepted, problem = None, error.message
    tokens, expires_at = credentials.tokens, credentials.expires_at
    return {
        "server": url,
        "user": _honest(credentials.subject) if credentials.subject else None,
        "accepted": accepted,
        "kept_in": credentials.source,
        "expires_at": None if expires_at is None else datetime.fromtimestamp(expires_at, UTC).isoformat(),
        "renewable": bool(tokens and tokens.refresh_token),
        "problem": problem,
    }


async def _by_code(endpoint: TokenEndpoint) -> Tokens:
    from client_agent.errors import LinkError
    from client_agent.link.credentials import Tokens
    from client_agent.link.login import log_in

    try:
        return await log_in(endpoint, _show_code)
    except LinkError as error:
        if error.code != "no_device_login":
            raise
        if not sys.stdin.isatty():
            fail(f"{error.message}: give a token with --token-stdin")
        typer.echo(f"{error.message}; a token will do.", err=True)
        return Tokens(_prompt())


def _show_code(code: DeviceCode) -> None:
    typer.echo(f"Confirm this code at {_honest(code.verification_uri)}\n\n    {_honest(code.user_code)}\n")
    typer.echo("Waiting for it …", err=True)


async def _is_accepted(endpoint: TokenEndpoint, url: str, settings: Settings, token: str) -> bool | None:
    """Whether the server takes the token; None where nothing can be tried with it."""
    from client_agent.errors import LinkError

    projects = [each.project_id for each in settings.workspaces.values() if each.server == url]
    if not projects:
        return None
    try:
        status = await endpoint.check(projects[0], token)
    except LinkError as error:
        typer.echo(error.message, err=True)
        return None
    return status != _UNAUTHORIZED if status in (_OK, _UNAUTHORIZED, 403, 404) else None


def choose_server(given: str | None, settings: Settings) -> str:
    """The one that is meant, or a word on which there are."""
    servers = sorted({each.server for each in settings.workspaces.values()})
    if given is not None:
        from client_agent import config

        return config.check_server(given)
    if len(servers) != 1:
        known = f"configured: {', '.join(servers)}" if servers else "none is configured; `client-agent init` does that"
        fail(f"say which server ({known})")
    return servers[0]


def _settings() -> Settings:
    """The configuration, for its servers, proxy and authorities; without one, the defaults."""
    from client_agent import config
    from client_agent.errors import ConfigError

    try:
        return config.load(config.config_path())
    except ConfigError as error:
        if error.code != "config_missing":
            raise
        return config.Settings()


def _credentials(url: str) -> Credentials:
    from client_agent import config
    from client_agent.link.credentials import Credentials

    return Credentials(url, config.state_dir())


def talking_to(url: str, settings: Settings) -> AbstractAsyncContextManager[TokenEndpoint]:
    """The part of a server that gives tokens, through the configured proxy and with the configured authorities."""
    from contextlib import asynccontextmanager

    from yarl import URL

    from client_agent.link.http import HttpPool
    from client_agent.link.login import TokenEndpoint

    @asynccontextmanager
    async def talking() -> AsyncIterator[TokenEndpoint]:
        pool = HttpPool(settings.link, URL(url))
        pool.open()
        try:
            yield TokenEndpoint(pool, URL(url))
        finally:
            await pool.close()

    return talking()


def _read_token(*, by_prompt: bool, by_stdin: bool) -> str | None:
    if by_stdin:
        return sys.stdin.readline().strip() or fail("there is no token on standard input")
    if not by_prompt:
        return None
    if not sys.stdin.isatty():
        fail("--token asks in a terminal; without one, use --token-stdin")
    return _prompt()


def _prompt() -> str:
    from getpass import getpass

    return getpass("Token (not shown): ").strip() or fail("no token was given")


def _tell_daemon() -> None:
    from client_agent import config
    from client_agent.local_api.client import NoDaemon, connecting

    try:
        with connecting(config.state_dir()) as daemon:
            daemon.request("reconnect")
    except NoDaemon:
        return


def _honest(text: str) -> str:
    from client_agent.approvals.honest import reveal

    return reveal(text)
