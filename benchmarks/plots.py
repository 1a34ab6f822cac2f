"""The published figures as pictures: ratios with their targets, and the curves. PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.curves import Drawn
from benchmarks.figures import Bound, Result
from benchmarks.machine import Machine

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_OURS, _MISSED, _FLOOR, _TARGET, _PEER = "#2b6cb0", "#c05621", "#718096", "#1a202c", "#d69e2e"


def plot_ratios(results: Sequence[Result], machine: Machine) -> Picture:
    """How many times the floor each figure is, with the target as a mark."""
    import matplotlib.pyplot as plt

    shown = [each for each in results if each.reading.ratio and each.figure.target]
    shown = [each for each in shown if each.figure.target and each.figure.target.bound is not Bound.VALUE_AT_MOST]
    picture, axes = plt.subplots(figsize=(8, 0.5 * len(shown) + 1.4), layout="constrained")
    for place, result in enumerate(reversed(shown)):
        target, ratio = result.figure.target, result.reading.ratio
        assert target is not None
        assert ratio is not None
        axes.barh(place, ratio.p50, color=_OURS if target.is_met(result.reading) else _MISSED, height=0.6)
        axes.plot([target.value] * 2, [place - 0.4, place + 0.4], color=_TARGET, linewidth=2)
    axes.axvline(1, color=_FLOOR, linewidth=1, linestyle="--")
    axes.set_yticks(range(len(shown)), [each.figure.title for each in reversed(shown)])
    axes.set_xlabel("× floor, measured in the same window (dashed: the floor; mark: the target)")
    _finish(picture, axes, machine)
    return picture


def plot_curves(curves: Sequence[Drawn], machine: Machine) -> Picture:
    import matplotlib.pyplot as plt

    rows = (len(curves) + 1) // 2
    picture, grid = plt.subplots(rows, 2, figsize=(9, 3.2 * rows), layout="constrained", squeeze=False)
    for axes, curve in zip(grid.flat, curves, strict=False):
        for name in curve.points[0].values:
            xs, ys = [point.x for point in curve.points], [point.values[name] for point in curve.points]
            floor = name == "floor"
            axes.plot(xs, ys, marker="o", label=name, color=_FLOOR if floor else None, linestyle="--" if floor else "-")
        axes.set_xscale("symlog" if curve.points[0].x == 0 else "log")
        axes.set_ylim(bottom=0)
        axes.set_title(curve.title)
        axes.set_xlabel(curve.x_label)
        axes.set_ylabel(curve.y_label)
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in list(grid.flat)[len(curves) :]:
        axes.set_visible(False)
    picture.text(0.99, 0.005, _caption(machine), ha="right", va="bottom", fontsize=7, color=_FLOOR)
    return picture


def plot_peers(lines: Sequence[Any], names: Sequence[str], machine: Machine) -> Picture:
    """One panel a line of the comparison, a bar for each who took part, from nought."""
    import matplotlib.pyplot as plt

    columns = 3
    rows = -(-len(lines) // columns)
    picture, grid = plt.subplots(rows, columns, figsize=(11, 2.1 * rows), layout="constrained", squeeze=False)
    for axes, line in zip(grid.flat, lines, strict=False):
        shown = [name for name in reversed(names) if name in line.values]
        colours = [{"floor": _FLOOR, "client-agent": _OURS}.get(name, _PEER) for name in shown]
        bars = axes.barh(shown, [line.values[name].p50 for name in shown], color=colours, height=0.65)
        axes.bar_label(
            bars, fmt=lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.3g}", padding=2, fontsize=7
        )
        axes.margins(x=0.25)
        axes.set_xticks([])
        axes.tick_params(labelsize=7)
        better = "more is better" if line.unit == "/s" else "less is better"
        axes.set_title(f"{line.title}\n{line.unit}, {better}", fontsize=8)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    for axes in list(grid.flat)[len(lines) :]:
        axes.set_visible(False)
    picture.text(0.99, 0.005, _caption(machine), ha="right", va="bottom", fontsize=7, color=_FLOOR)
    return picture


def _finish(picture: Picture, axes: Any, machine: Machine) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(left=0)
    axes.set_title(_caption(machine), fontsize=8, color=_FLOOR, loc="right")


def _caption(machine: Machine) -> str:
    version = machine.versions.get("client-agent", "")
    return f"client-agent {version} · {machine.date} · {machine.cores} cores · {machine.kernel} · {machine.python}"


def save_pictures(directory: Path, pictures: dict[str, Picture]) -> None:
    import matplotlib.pyplot as plt

    directory.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        picture.savefig(directory / f"{name}.png", dpi=160)
        picture.savefig(directory / f"{name}.svg", metadata={"Date": None})
        plt.close(picture)
