"""What a changed configuration would allow beyond the one in force. Pure.

Every field has a rule that says what tightens it. A field without one widens whenever it changes, so that a field added
tomorrow waits for the user until somebody has thought about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import msgspec

from client_agent.config import (
    Approvals,
    Limits,
    Link,
    Policy,
    ProgramTable,
    Sandbox,
    Settings,
    Undo,
    Workspace,
    WorkspaceName,
)
from client_agent.policy.commands.tables import builtin_programs
from client_agent.protocol.masking import mask_text

MAX_SHOWN_CHARS = 300


class Widening(msgspec.Struct, frozen=True):
    """One thing that would be allowed and is not now: its key in the configuration, and a sentence for a person."""

    key: str
    text: str


class Comparison(msgspec.Struct, frozen=True):
    """`in_force` is what may hold at once: the new settings, with the old value kept wherever the new one widens."""

    in_force: Settings
    widenings: tuple[Widening, ...]


# Takes the old and the new value; gives the tighter of both, and what of the new one widens.
_Rule: TypeAlias = Callable[[Any, Any], tuple[Any, list[str]]]


def compare(before: Settings, after: Settings) -> Comparison:
    """The settings that may be in force without asking, and all for which the user must be asked."""
    widenings: list[Widening] = []
    in_force = _narrow(before, after, "", widenings)
    return Comparison(in_force, tuple(widenings))


def _narrow(before: Any, after: Any, prefix: str, widenings: list[Widening]) -> Any:
    """One table, field by field."""
    values = {
        name: _narrow_field((type(before), name), getattr(before, name), getattr(after, name), prefix, widenings)
        for name in before.__struct_fields__
    }
    return msgspec.structs.replace(before, **values)


def _narrow_field(field: tuple[type, str], before: Any, after: Any, prefix: str, widenings: list[Widening]) -> Any:
    key = f"{prefix}{field[1]}"
    if before == after:
        return after
    if field == (Settings, "workspaces"):
        return _narrow_workspaces(before, after, f"{key}.", widenings)
    if isinstance(before, msgspec.Struct):
        return _narrow(before, after, f"{key}.", widenings)
    value, texts = _RULES.get(field, _any_change_widens)(before, after)
    widenings += [Widening(key, text) for text in texts]
    return value


def _narrow_workspaces(
    before: Mapping[WorkspaceName, Workspace],
    after: Mapping[WorkspaceName, Workspace],
    prefix: str,
    widenings: list[Widening],
) -> dict[WorkspaceName, Workspace]:
    """One that is no longer named is gone; one that is new waits, and all in it that is not the default is named."""
    kept: dict[WorkspaceName, Workspace] = {}
    for name, workspace in after.items():
        if name in before:
            kept[name] = _narrow(before[name], workspace, f"{prefix}{name}.", widenings)
        else:
            who = f"project {workspace.project_id} of {workspace.server}"
            widenings.append(Widening(f"{prefix}{name}", f"a new workspace: {who} may work in {workspace.root}"))
            plain = Workspace(root=workspace.root, project_id=workspace.project_id, server=workspace.server)
            _narrow(plain, workspace, f"{prefix}{name}.", widenings)
    return kept


def _any_change_widens(before: Any, after: Any) -> tuple[Any, list[str]]:
    return before, [f"{_show(before)} becomes {_show(after)}"]


def _any_change_is_free(before: Any, after: Any) -> tuple[Any, list[str]]:
    return after, []


def _lower_is_tighter(before: Any, after: Any) -> tuple[Any, list[str]]:
    tighter = min(before, after)
    return tighter, [] if tighter == after else [f"{before} is raised to {after}"]


def _more_is_tighter(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[Any, list[str]]:
    """A list of what is refused."""
    gone = [item for item in before if item not in after]
    both = (*before, *(item for item in after if item not in before))
    return both if gone else after, [f"no longer refused: {_show(item)}" for item in gone]


def _fewer_is_tighter(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[Any, list[str]]:
    """A list of what is allowed."""
    new = [item for item in after if item not in before]
    return tuple(item for item in after if item in before), [f"newly allowed: {_show(item)}" for item in new]


def _earlier_is_tighter(order: tuple[str, ...], before: str, after: str) -> tuple[Any, list[str]]:
    if after in order[: order.index(before)]:
        return after, []
    return before, [f"{_show(before)} becomes {_show(after)}"]


def _narrow_programs(before: Mapping[str, ProgramTable], after: Mapping[str, ProgramTable]) -> tuple[Any, list[str]]:
    """A program of the user's own that is taken away can no longer run; all else may be judged milder than it was."""
    texts = [f"the program {name!r} may be run: {_describe(after[name])}" for name in after if name not in before]
    texts += [
        f"the program {name!r} is judged by another table"
        for name in after
        if before.get(name, after[name]) != after[name]
    ]
    built_in = set(builtin_programs().names)
    back = [name for name in before if name not in after and built_in & {name, *before[name].aliases}]
    texts += [f"the program {name!r} is judged by the built-in table again" for name in back]
    return {name: table for name, table in before.items() if name in after or name in back}, texts


def _describe(table: ProgramTable) -> str:
    facts = [table.does or "no description", table.risk or "HIGH", *(["with the network"] if table.network else [])]
    return ", ".join(facts)


def _show(value: Any) -> str:
    """For people: an address may hold a password, and a list may be long."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    shown = mask_text(text[:MAX_SHOWN_CHARS])
    return f"{shown}…" if len(text) > MAX_SHOWN_CHARS else shown or "nothing"


_RULES: dict[tuple[type, str], _Rule] = {
    **{(Limits, name): _lower_is_tighter for name in Limits.__struct_fields__},
    (Policy, "deny"): _more_is_tighter,
    (Policy, "refused_extensions"): _more_is_tighter,
    (Policy, "remove_programs"): _more_is_tighter,
    (Policy, "programs"): _narrow_programs,
    (Sandbox, "mechanism"): partial(_earlier_is_tighter, ("auto", "job-object", "none")),
    (Sandbox, "toolchains"): _fewer_is_tighter,
    # A question that is open for less time is a no sooner.
    (Approvals, "medium_timeout_s"): _lower_is_tighter,
    (Approvals, "high_timeout_s"): _lower_is_tighter,
    (Approvals, "unattended"): partial(_earlier_is_tighter, ("reject", "wait")),
    (Approvals, "notifications"): _any_change_is_free,  # it is the user who answers, there as elsewhere
    (Approvals, "open_page"): _any_change_is_free,
    # Who is spoken to and who is believed (proxy, ca_file, trust) is no matter of tighter or wider: it is asked about.
    (Link, "heartbeat_deadline_s"): _any_change_is_free,
    (Link, "connect_timeout_s"): _any_change_is_free,
    (Link, "reconnect_max_s"): _any_change_is_free,
    (Settings, "version"): _any_change_is_free,
    (Settings, "log_level"): _any_change_is_free,
    # How much can be taken back says nothing of what can be done.
    (Undo, "max_bytes"): _any_change_is_free,
    (Undo, "keep_days"): _any_change_is_free,
}
