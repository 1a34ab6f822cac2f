"""How things stand, for `client-agent status`.

Without typer: shell prompts and supervisors ask this often, and its machinery takes longer than the answer.
"""

from __future__ import annotations

from typing import Any

from client_agent.cli.exits import Exit

_CONNECTED = "connected"


def show_status(*, as_json: bool) -> Exit:
    """Prints it; the exit code says it in short."""
    from client_agent import config
    from client_agent.local_api.client import ANSWER_S, NoDaemon, connecting

    state_dir = config.state_dir()
    try:
        with connecting(state_dir, timeout_s=ANSWER_S) as daemon:
            told = daemon.request("status")
    except NoDaemon as error:
        return _show_absence(state_dir, error.message, as_json=as_json)
    up = all(each["state"] == _CONNECTED for each in told["workspaces"].values())
    if as_json:
        _print_json({"running": True, "connected": up, **told})
    else:
        print("\n".join(describe(told)))
    return Exit.OK if up else Exit.SERVER


def _show_absence(state_dir: Any, message: str, *, as_json: bool) -> Exit:
    """Nobody answers. That nobody is there is only true when nobody holds the directory's lock."""
    from client_agent.journal.lock import find_holder

    holder = find_holder(state_dir)
    if as_json:
        _print_json({"running": holder is not None, "connected": False, "pid": holder})
    elif holder is None:
        print(message)
    else:
        print(f"a daemon (process {holder}) holds {state_dir} but does not answer: it starts, stops or hangs")
    return Exit.NOT_RUNNING if holder is None else Exit.FAILED


def describe(told: dict[str, Any]) -> list[str]:
    """The status as lines for a person."""
    from client_agent.approvals.honest import reveal

    lines = [f"client-agent {told['version']} runs (process {told['pid']})"]
    for name, each in told["workspaces"].items():
        lines += _describe_workspace(name, each)
    if told["questions"]:
        count = "1 question waits" if told["questions"] == 1 else f"{told['questions']} questions wait"
        lines.append(f"  {count} for you: `client-agent approvals watch`, `client-agent ui`")
    lines += [
        f"  session {reveal(pause['session_id'] or '-')} in {pause['workspace']} is paused: you refused "
        f"{pause['what']} three times; `client-agent approvals resume` lets it ask again"
        for pause in told["paused"]
    ]
    lines += _describe_configuration(told["configuration"])
    if told["dead_posts"]:
        lines.append(f"  the server refused {told['dead_posts']} results for good: `client-agent outbox list`")
    if told["notifications"]["state"] == "missing":
        lines.append(f"  no desktop notifications: {told['notifications']['detail']}")
    if told["journal_trouble"]:
        lines.append(f"  ! nothing can be recorded, so nothing runs: {told['journal_trouble']}")
    return lines


def _describe_configuration(told: dict[str, Any]) -> list[str]:
    lines = []
    if told["problem"]:
        lines.append(f"  ! the configuration cannot be used, the last good one stays in force: {told['problem']}")
    if told["pending"]:
        lines.append("  the configuration has changed and would allow more: `client-agent config confirm` shows what")
    return lines


def _describe_workspace(name: str, each: dict[str, Any]) -> list[str]:
    detail = f": {each['detail']}" if each["detail"] else ""
    heard = f", last heard {_to_the_second(each['last_byte_at'])}" if each["last_byte_at"] else ""
    lines = [
        f"  {name}: {each['state']} since {_to_the_second(each['since'])}{heard}{detail}",
        f"    {each['root']} ⇄ project {each['project_id']} on {each['server']}",
        f"    commands: {_describe_sandbox(each['sandbox'])}",
        f"    open calls: {each['calls_open']}  not delivered yet: {each['outbox']}",
    ]
    if each["processes"]:
        lines.append(f"    in the background: {each['processes']} (`client-agent ps`)")
    if each["pause"]:
        lines.append(f"    {describe_pause(each['pause'])}: nothing runs; `client-agent resume` goes on")
    return lines


def describe_pause(pause: dict[str, Any]) -> str:
    until = f" until {_time(pause['until'])}" if pause["until"] else ""
    note = f" ({pause['note']})" if pause["note"] else ""
    return f"paused since {_time(pause['since'])}{until}{note}"


def _describe_sandbox(sandbox: dict[str, Any] | None) -> str:
    if sandbox is None:
        return "not tried yet"
    if "name" not in sandbox:
        return f"refused, since nothing confines them: {sandbox['reason']}. {sandbox['remedy']}"
    confined = f"confined by {sandbox['name']} ({', '.join(sandbox['parts'])})"
    return f"! {'; '.join(sandbox['gaps'])} [{confined}]" if sandbox["gaps"] else confined


def _to_the_second(moment: str) -> str:
    """2026-01-31T12:00:00.123456Z without what nobody reads."""
    return f"{moment.partition('.')[0].removesuffix('Z')}Z"


def _time(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print_json(value: Any) -> None:
    import msgspec

    print(msgspec.json.encode(value).decode())
