"""What happened, as the page shows it: calls that fit a filter, and how many of them were decided how over time."""

from __future__ import annotations

import time
from itertools import takewhile
from typing import Any, Literal

import msgspec

from client_agent.journal.reader import Reader
from client_agent.journal.records import CallOutline
from client_agent.local_api.shown import show_call

MAX_ROWS = 500
PLOT_BUCKETS = 60
_SCANNED_CALLS = 5_000
_WEEK_MINUTES = 60 * 24 * 7
# What a plot tells apart: what ran unasked, what a person said, and what nobody could allow.
DECISIONS = ("unasked", "allowed", "denied", "refused", "open")


class Look(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters on what happened; what is left out matches everything. `before` is the `at` of the last row seen."""

    workspace: str | None = None
    tool: str | None = None
    risk: str | None = None
    outcome: Literal["ran", "failed", "refused", "rejected", "open"] | None = None
    text: str = ""
    limit: int = 100
    before: float | None = None


class Span(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    minutes: int = 60


def list_calls(reader: Reader, look: Look) -> dict[str, Any]:
    """The newest calls that fit, and whether there may be older ones."""
    limit = max(1, min(look.limit, MAX_ROWS))
    before = look.before if look.before is not None else float("inf")
    filtered = any((look.tool, look.risk, look.outcome, look.text))
    scanned = _SCANNED_CALLS if filtered else limit + 1
    records = reader.recent_calls(workspace=look.workspace, limit=scanned, before=before)
    rows = [row for row in map(show_call, records) if _fits(row, look)]
    return {"calls": rows[:limit], "more": len(rows) > limit or (filtered and len(records) == scanned)}


def plot_calls(reader: Reader, span: Span) -> dict[str, Any]:
    """Calls of the last minutes, counted by what was decided, oldest first."""
    width_s = max(1, min(span.minutes, _WEEK_MINUTES)) * 60 / PLOT_BUCKETS
    start = time.time() - width_s * PLOT_BUCKETS
    counts = {decision: [0] * PLOT_BUCKETS for decision in DECISIONS}
    for call in takewhile(lambda call: call.created_at >= start, reader.outline_calls()):
        place = int((call.created_at - start) / width_s)
        counts[classify(call)][min(place, PLOT_BUCKETS - 1)] += 1
    return {"start": start, "width_s": width_s, "counts": counts}


def classify(call: CallOutline) -> str:
    """One of DECISIONS."""
    if call.verdict == "refuse":
        return "refused"
    if call.verdict == "run":
        return "unasked"
    if call.state in ("REJECTED", "TIMEOUT"):
        return "denied"
    return "allowed" if call.approver is not None else "open"


def _fits(row: dict[str, Any], look: Look) -> bool:
    return (
        (look.tool is None or row["tool"] == look.tool)
        and (look.risk is None or row["risk"] == look.risk)
        and (look.outcome is None or _outcome(row) == look.outcome)
        and (not look.text or look.text.lower() in f"{row['target']} {row['tool_id']} {row['parameters']}".lower())
    )


def _outcome(row: dict[str, Any]) -> str:
    match row["state"]:
        case "COMPLETED":
            return "ran"
        case "REJECTED" | "TIMEOUT":
            return "rejected"
        case "FAILED":
            return "refused" if row["verdict"] == "refuse" else "failed"
        case _:
            return "open"
