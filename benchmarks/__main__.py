"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import plots, report
from benchmarks.catalogue import FIGURES
from benchmarks.curves import CURVES, draw
from benchmarks.figures import LONG, SHORT, Effort, Figure, Result
from benchmarks.fixtures import Files
from benchmarks.machine import describe_machine
from benchmarks.processes import ROOT
from benchmarks.stage import Stage, open_stage, run_to_its_end

RESULTS = ROOT / "benchmarks" / "results"
PUBLISHED = ROOT / "docs" / "benchmarks"
_FIGURE_LIMIT_S = 180


async def take(stage: Stage, figure: Figure, effort: Effort) -> Result:
    began, before_ms = time.perf_counter(), stage.control.take()
    async with asyncio.timeout(_FIGURE_LIMIT_S):
        reading = await figure.measure(stage, effort)
    control_ms = max(before_ms, stage.control.take())
    return Result(figure=figure, reading=reading, control_ms=control_ms, took_s=time.perf_counter() - began)


async def take_all(stage: Stage, figures: Sequence[Figure], effort: Effort) -> list[Result]:
    results = []
    for figure in figures:
        results.append(await take(stage, figure, effort))
        print(f"  {figure.title}: {results[-1].took_s:.0f} s", file=sys.stderr, flush=True)
    return results


async def run(options: argparse.Namespace, scratch: Path) -> None:
    chosen = [each for each in FIGURES if not options.only or each.key in options.only]
    effort = LONG if options.long else SHORT
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with open_stage(Files(scratch / "workspace"), scratch) as stage:
        results = await take_all(stage, chosen, effort)
        curves = [await draw(stage, curve) for curve in CURVES] if options.publish or options.curves else []
        machine, control = describe_machine(), stage.control
    heading, footing = report.heading(machine), report.footing(results, control)
    table = report.table(report.HEADINGS, [report.row(result, control) for result in results])
    print(f"{heading}\n\n{table}\n\n{footing}")
    content = report.to_json(machine, results, control, curves)
    report.save(RESULTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json", content)
    if options.publish:
        report.save(PUBLISHED / "latest.json", content)
        told = f"# The last published run\n\n```\n{heading}\n\n{table}\n\n{footing}\n```\n"
        (PUBLISHED / "latest.md").write_text(told, encoding="utf-8")
        pictures = {"ratios": plots.plot_ratios(results, machine), "curves": plots.plot_curves(curves, machine)}
        plots.save_pictures(PUBLISHED, pictures)


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="KEY", choices=[figure.key for figure in FIGURES])
    parser.add_argument("--long", action="store_true", help="more repeats")
    parser.add_argument("--curves", action="store_true", help="also the cost as the work grows")
    parser.add_argument(
        "--publish", action="store_true", help="with curves, its table and pictures into docs/benchmarks"
    )
    return parser.parse_args(arguments)


def main() -> int:
    options = parse_options()
    return run_to_its_end(lambda scratch: run(options, scratch))


if __name__ == "__main__":
    sys.exit(main())
