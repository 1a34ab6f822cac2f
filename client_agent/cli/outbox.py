"""`client-agent outbox`: what the server has not acknowledged yet, and what it will never take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.exits import Exit
from client_agent.cli.printing import fail, print_json

if TYPE_CHECKING:
    from client_agent.journal.records import Post

app = typer.Typer(help="Results and answers that the server does not have yet.", invoke_without_command=True)

Target = Annotated[
    str, typer.Argument(metavar="ID", help="As `outbox list` shows it; its beginning is enough. Or 'all'.")
]


@app.callback()
def outbox(context: typer.Context) -> None:
    """Results and answers that the server does not have yet."""
    if context.invoked_subcommand is None:
        list_posts()


@app.command("list")
def list_posts(as_json: AsJson = False) -> None:
    """List what waits, and what the server refused for good (dead), oldest first."""
    import msgspec

    posts = _read()
    if as_json:
        print_json({"posts": [msgspec.to_builtins(post) for post in posts]})
        return
    for post in posts:
        problem = f"  {_honest(post.problem)}" if post.problem else ""
        typer.echo(f"{post.target}  {post.kind}  {post.state}  {post.workspace}  tried {post.attempts}×{problem}")
    if not posts:
        typer.echo("nothing waits: the server has everything")


@app.command()
def retry(target: Target) -> None:
    """Send now, or as soon as a daemon runs, what waits or was given up as dead."""
    _change(target, "retry", "to be sent again")


@app.command()
def drop(target: Target) -> None:
    """Give up what waits or is dead: the server will never hear of it."""
    _change(target, "drop", "dropped")


def _read() -> list[Post]:
    from client_agent import config
    from client_agent.journal.reader import reading

    with reading(config.state_dir()) as reader:
        return reader.posts_not_delivered()


def _change(target: str, verb: Literal["retry", "drop"], done: str) -> None:
    """Acts on every post of that name: through the daemon, which owns the outbox, or where none runs, on the file."""
    from client_agent.local_api.client import NoDaemon

    chosen = _choose(_read(), target)
    try:
        changed = _ask_daemon(chosen, verb)
    except NoDaemon:
        changed = _change_file(chosen, verb)
    typer.echo(f"{done}: {changed}")
    if changed < len(chosen):
        fail(f"{len(chosen) - changed} could not be changed: delivered meanwhile, or no longer kept", Exit.FAILED)


def _choose(posts: list[Post], target: str) -> list[Post]:
    """All, or those of one call or approval: what is dropped cannot be got back."""
    if target == "all":
        return posts
    chosen = [post for post in posts if target and post.target.startswith(target)]
    exact = [post for post in chosen if post.target == target]
    if not chosen:
        fail(f"nothing in the outbox begins with {target!r}: see `client-agent outbox list`", Exit.FAILED)
    if not exact and len({post.target for post in chosen}) > 1:
        fail(f"several in the outbox begin with {target!r}: see `client-agent outbox list`", Exit.FAILED)
    return exact or chosen


def _ask_daemon(posts: list[Post], verb: str) -> int:
    from client_agent import config
    from client_agent.local_api.client import connecting

    with connecting(config.state_dir()) as daemon:
        return sum(
            bool(daemon.request(f"outbox.{verb}", workspace=post.workspace, kind=post.kind, target=post.target)["done"])
            for post in posts
        )


def _change_file(posts: list[Post], verb: Literal["retry", "drop"]) -> int:
    """Opens the journal as a daemon does, so that none can start meanwhile."""
    from contextlib import closing

    from client_agent import config
    from client_agent.journal.journal import Journal

    with closing(Journal(config.state_dir())) as journal:
        outboxes = {name: journal.recover(name).ledger.outbox for name in {post.workspace for post in posts}}
        return sum(getattr(outboxes[post.workspace], verb)(post.kind, post.target) for post in posts)


def _honest(text: str) -> str:
    from client_agent.approvals.honest import reveal

    return reveal(text)
