# ruff: noqa: T201
"""The long form: `make soak MINUTES=5 SEED=1`. Exit code 1 when anything that is promised did not hold.

Rounds alternate: a kill at each step of a call in turn, then kills at no particular moment, against a server that
misbehaves by the same seed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from client_agent.server.faults import everything
from tests.soak.field import Field, playing, table
from tests.soak.rounds import kill_at_random, kill_at_step, steps


async def soak(base: Path, minutes: float, seed: int) -> int:
    started = time.monotonic()
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # it must not leave its daemon behind
    async with playing(base, seed, everything(seed)) as field:
        for number, step in enumerate(itertools.cycle(steps()), 1):
            await kill_at_step(field, step)
            await kill_at_random(field)
            if time.monotonic() - started > minutes * 60:
                break
            if number % 5 == 0:
                print(f"{time.monotonic() - started:6.0f} s  {summary(field)}", flush=True)
        await field.settle(timeout_s=180)
        rows = field.check()
        print(f"seed {seed}, {(time.monotonic() - started) / 60:.1f} minutes: {summary(field)}")
    print(table(rows))
    print(
        "why calls did not complete: " + ", ".join(f"{code} {count}" for code, count in field.failures().most_common())
    )
    return 1 if any(row.broken for row in rows) else 0


def summary(field: Field) -> str:
    ends = Counter(call.ended or "open" for call in field.calls)
    told = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    return f"{len(field.calls)} calls ({told}), {sum(field.kills.values())} kills"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # they complain of the faults
    with tempfile.TemporaryDirectory(prefix="client-agent-soak-") as directory:
        return asyncio.run(soak(Path(directory) / "field", chosen.minutes, chosen.seed))


if __name__ == "__main__":
    sys.exit(main())
