"""What came out, for people (an aligned table) and for programs (JSON)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.curves import Drawn
from benchmarks.figures import Result, Unit
from benchmarks.machine import Control, Machine
from benchmarks.timing import Summary

HEADINGS = ("work", "p50", "p99", "floor p50", "p99", "ratio", "target", "verdict", "control")
_NONE = "–"


def number(value: float) -> str:
    """Three digits that matter."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1g}"


def quantity(value: float | None, unit: Unit) -> str:
    return _NONE if value is None else f"{number(value)} {unit.value}".strip()


def verdict(result: Result) -> str:
    target = result.figure.target
    if target is None:
        return _NONE
    return "met" if target.is_met(result.reading) else "MISSED"


def row(result: Result, control: Control) -> list[str]:
    figure, reading = result.figure, result.reading
    # The p99 of a rate would be its best moment: only times have a bad end worth showing.
    tail = figure.unit in {Unit.MS, Unit.US}
    busy = " busy" if control.was_busy(result.control_ms) else ""
    return [
        figure.title,
        quantity(reading.ours.p50, figure.unit),
        quantity(_tail(reading.ours, tail), figure.unit),
        quantity(reading.floor.p50 if reading.floor else None, figure.unit),
        quantity(_tail(reading.floor, tail), figure.unit),
        f"{reading.ratio.p50:.2f}" if reading.ratio else _NONE,
        figure.target.describe(figure.unit) if figure.target else _NONE,
        verdict(result),
        f"{result.control_ms:.2f}{busy}",
    ]


def _tail(summary: Summary | None, wanted: bool) -> float | None:
    return summary.p99 if summary is not None and wanted else None


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, the first to the left, all others to the right."""
    widths = [max(len(line[column]) for line in (headings, *rows)) for column in range(len(headings))]
    lines = [
        "  ".join(cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(line, widths, strict=True)) for line in (headings, *rows))
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def heading(machine: Machine) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return f"{machine.date} · {machine.cores} cores · {machine.kernel} · {machine.python}\n{versions}"


def footing(results: Sequence[Result], control: Control) -> str:
    notes = [f"{result.figure.title}: {result.reading.note}" for result in results if result.reading.note]
    missed = sum(verdict(result) == "MISSED" for result in results)
    judged = sum(result.figure.target is not None for result in results)
    notes.append(f"{judged - missed} of {judged} targets met.")
    notes.append(f"Control: a bare spawn of true around each figure, in ms; {control.quiet_ms:.2f} at its quietest.")
    return "\n".join(notes)


def to_json(machine: Machine, results: Sequence[Result], control: Control, curves: Sequence[Drawn]) -> bytes:
    body = {
        "machine": msgspec.to_builtins(machine),
        "control_quiet_ms": control.quiet_ms,
        "figures": [_figure(result, control) for result in results],
        "curves": msgspec.to_builtins(curves),
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"


def _figure(result: Result, control: Control) -> dict[str, Any]:
    figure = result.figure
    return {
        "key": figure.key,
        "title": figure.title,
        "unit": figure.unit.value,
        "floor_is": figure.floor,
        "target": figure.target.describe(figure.unit) if figure.target else None,
        "met": figure.target.is_met(result.reading) if figure.target else None,
        "control_ms": result.control_ms,
        "busy": control.was_busy(result.control_ms),
        "took_s": result.took_s,
        **msgspec.to_builtins(result.reading),
    }


def save(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
