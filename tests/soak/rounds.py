"""One life of the daemon each: started, given work, killed."""

from __future__ import annotations

import asyncio

from tests.soak.child import POINTS
from tests.soak.field import Field

# The position is saved with many commits; the second one of a life holds the first events of that life.
COUNTS = {"event id saved": 2}


def steps() -> list[str]:
    """Before and after each step of a call."""
    return [f"{moment}:{point}:{COUNTS.get(point, 1)}" for point in POINTS for moment in ("before", "after")]


async def kill_at_step(field: Field, step: str) -> bool:
    """The daemon dies at this step; whether it came to that."""
    field.start(step)
    for kind in ("write", "write", "refused", "read", "look", "command"):
        await field.submit(kind)
    died = await field.die(timeout_s=20)
    await field.kill(step.rpartition(":")[0])
    return died


async def kill_at_random(field: Field) -> None:
    """The daemon dies at a moment that nobody chose, with calls in every state."""
    field.start()
    await asyncio.sleep(0.3 + field.chance.random())
    await field.submit_some(field.chance.randrange(1, 20))
    await asyncio.sleep(field.chance.random() * 0.5)
    await field.kill("at random")
    await field.look()
