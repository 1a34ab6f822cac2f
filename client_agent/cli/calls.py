"""`client-agent call`, `check` and `tools`: the same decisions and tools as the daemon's, from the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client_agent.cli.exits import Exit
from client_agent.cli.printing import fail, print_json, print_pretty_json

if TYPE_CHECKING:
    from client_agent.approvals.permissions import Permissions
    from client_agent.local import LocalWorkspace
    from client_agent.protocol.calls import Call

ToolName = Annotated[str | None, typer.Argument(metavar="TOOL", help="For example read_file.", show_default=False)]
ToolParams = Annotated[
    str | None, typer.Argument(metavar="JSON", help="""Parameters, e.g. '{"path": "README.md"}'.""", show_default=False)
]
WorkspaceDir = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="DIR",
        help="Use this directory with default policy and no configuration file.",
        show_default=False,
    ),
]
WorkspaceName = Annotated[
    str | None,
    typer.Option("--name", "-n", help="Use this workspace of the configuration.", show_default=False),
]
Stdin = Annotated[
    bool,
    typer.Option("--stdin", help='Read {"tool_name", "tool_params"} objects, one a line; answer one a line, in order.'),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]


def check(
    tool: ToolName = None,
    params: ToolParams = None,
    workspace: WorkspaceDir = None,
    name: WorkspaceName = None,
    stdin: Stdin = False,
    as_json: AsJson = False,
) -> None:
    """Say whether a call would run, ask or be refused, and why. Nothing is executed.

    Exit code: 0 it would run, 3 it would ask, 1 it would be refused; with --stdin 0.
    """
    from client_agent.policy.decision import Verdict

    call = None if stdin else one_call(tool, params)
    with open_workspace(workspace, name) as local:
        if call is None:
            for request in _requests():
                print_json(request if isinstance(request, dict) else local.check(request).to_json())
            return
        decision = local.check(call)
    if as_json:
        print_json(decision.to_json())
    else:
        typer.echo(f"{decision.verdict.value}  {decision.risk.name}  ({decision.code})")
        for reason in decision.reasons:
            typer.echo(f"  · {_honest(reason.text)}")
    codes = {Verdict.RUN: Exit.OK, Verdict.ASK: Exit.NEEDS_APPROVAL, Verdict.REFUSE: Exit.FAILED}
    raise typer.Exit(codes[decision.verdict])


def call(
    tool: ToolName = None,
    params: ToolParams = None,
    workspace: WorkspaceDir = None,
    name: WorkspaceName = None,
    approve: Annotated[bool, typer.Option("--approve", help="Execute what would otherwise be asked.")] = False,
    stdin: Stdin = False,
    as_json: AsJson = False,
) -> None:
    """Carry out one call here, through the daemon's own dispatch.

    Exit code: 0 completed, 1 failed or refused, 3 it would have to be asked (see --approve); with --stdin 0.
    """
    asked = None if stdin else one_call(tool, params)
    with open_workspace(workspace, name) as local:
        if asked is None:
            for request in _requests():
                print_json(request if isinstance(request, dict) else local.call(request, approve=approve))
            return
        outcome = local.call(asked, approve=approve)
    (print_json if as_json else print_pretty_json)(outcome)
    if outcome["status"] == "completed":
        raise typer.Exit(Exit.OK)
    raise typer.Exit(Exit.NEEDS_APPROVAL if outcome["code"] == "no_approver" else Exit.FAILED)


def tools(as_json: AsJson = False) -> None:
    """List the tools that agents may ask for."""
    from client_agent.protocol.tools import SPECS, parameter_schema
    from client_agent.tools import TOOLS

    rows = [
        {
            "name": spec.name,
            "server_id": spec.server_id,
            "available": spec.name in TOOLS,
            "description": spec.description,
            "parameters": parameter_schema(spec),
            "aliases": list(spec.aliases),
        }
        for spec in SPECS
    ]
    if as_json:
        print_json({"tools": rows, "total_count": len(rows)})
        return
    for row in rows:
        state = "" if row["available"] else "  (not available yet)"
        typer.echo(f"{row['name']:18} {row['description']}{state}")


def open_workspace(directory: Path | None, name: str | None, permissions: Permissions | None = None) -> LocalWorkspace:
    """The workspace that a command is about. A directory has default policy: no rules, unless they are given."""
    from client_agent import config
    from client_agent.approvals.permissions import Permissions
    from client_agent.local import LocalWorkspace

    if directory is not None and name is not None:
        fail("--workspace and --name: give one of them, not both")
    if directory is not None:
        return LocalWorkspace("local", config.local_workspace(directory.expanduser().absolute()), permissions)
    settings = config.load(config.config_path())
    if name is None and len(settings.workspaces) == 1:
        name = next(iter(settings.workspaces))
    if name is None or name not in settings.workspaces:
        known = ", ".join(settings.workspaces) or "none yet"
        problem = f"there is no workspace {name!r}" if name else "say which workspace"
        fail(f"{problem}: --name NAME (configured: {known}) or --workspace DIR")
    return LocalWorkspace(
        name, settings.workspaces[name], permissions or Permissions(config.state_dir()), settings.undo
    )


def one_call(tool: str | None, params: str | None) -> Call:
    if tool is None:
        fail("say which tool and with which parameters, or use --stdin; `client-agent tools` lists the tools")
    request = _decode({"tool_name": tool}, params or "{}")
    if isinstance(request, dict):
        fail(request["error"])
    return request


def _requests() -> Iterator[Call | dict[str, Any]]:
    """The calls on standard input; a line that is none becomes its own answer."""
    for line in sys.stdin.buffer:
        if line.strip():
            yield _decode({}, line)


def _decode(known: dict[str, Any], text: str | bytes) -> Call | dict[str, Any]:
    """A call from `JSON` parameters, or from a whole request when the tool is not known yet."""
    import uuid

    import msgspec

    from client_agent.protocol.calls import Call

    try:
        value = msgspec.json.decode(text)
        fields = {**known, "tool_params": value} if known else value
        return msgspec.convert({"tool_id": uuid.uuid4().hex, **fields}, Call)
    except (msgspec.DecodeError, msgspec.ValidationError, TypeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"not a usable request: {error}"
        refusal = {"decision": "refuse", "risk": "HIGH", "reasons": [problem], "code": "invalid_request"}
        return {"status": "failed", "success": False, "error": problem, **refusal}


def _honest(text: str) -> str:
    from client_agent.approvals.honest import reveal

    return reveal(text)
