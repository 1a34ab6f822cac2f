"""Cells used again: only those in which nobody could tell that they were used before."""

from __future__ import annotations

import asyncio
import json

import pytest

from client_agent.sandbox import Access, Job, Sandbox
from tests.integration.sandbox.commands import OpenSandbox, run_python

# Process numbers begin anew in a new cell, and go on in one that is used again.
LOOK = """
import json, os, sys
if len(sys.argv) > 1: exec(sys.argv[1])
def show(path): return sorted(os.listdir(path)), os.stat(path).st_mode, os.listxattr(path)
seen = {path: show(path) for path in ("/tmp", os.environ["HOME"])}
print(json.dumps([os.getpid(), seen]))
"""


async def look(sandbox: Sandbox, *deed: str) -> tuple[int, object]:
    outcome = await run_python(sandbox, LOOK, *deed, access=Access.WRITABLE)
    assert outcome.exit_code == 0, outcome.stderr
    pid, seen = json.loads(outcome.stdout.splitlines()[-1])
    return pid, seen


async def test_a_cell_that_nothing_was_left_in_is_used_again(open_here: OpenSandbox) -> None:
    sandbox = await open_here()
    pids = [(await look(sandbox))[0] for _ in range(6)]
    assert max(pids) > min(pids)


@pytest.mark.parametrize(
    "deed",
    [
        "open('/tmp/left', 'w')",
        "open(os.environ['HOME'] + '/.profile', 'w').write('evil')",
        "os.mkdir('/tmp/.hidden')",
        "os.chmod('/tmp', 0o700)",
        "os.chmod(os.environ['HOME'], 0o755)",
        "os.rmdir(os.environ['HOME']); os.mkdir(os.environ['HOME'], 0o777)",
        "home = os.environ['HOME']; os.rename(home, '/tmp/y'); os.mkdir(home, 0o700); os.rename('/tmp/y', home + '/y')",
        "os.symlink('/etc', '/tmp/link')",
        "os.setxattr('/tmp', 'user.left', b'x') if hasattr(os, 'setxattr') else None",
        "[open(os.path.join(parent, 'left'), 'w') for parent in ('..', '../..') if os.access(parent, os.W_OK)]",
        "os.fork() or os.execv('/bin/sleep', ['sleep', '60'])",
    ],
)
async def test_a_trace_of_any_kind_is_seen_by_no_later_command(open_here: OpenSandbox, deed: str) -> None:
    """More commands than cells are kept, so that every one of them is met again."""
    sandbox = await open_here()
    _, fresh = await look(sandbox)
    guarded = f"try:\n    {deed}\nexcept OSError: pass\nsys.argv = sys.argv[:1]"
    for _ in range(3):
        await look(sandbox, guarded)
    for _ in range(4):
        seen = (await look(sandbox))[1]
        assert seen == fresh
        parents = await run_python(sandbox, "import os; print([os.path.exists(p + '/left') for p in ('..', '../..')])")
        assert "True" not in parents.stdout


async def test_after_a_busy_time_spare_cells_are_given_up_and_it_goes_on(open_here: OpenSandbox) -> None:
    sandbox = await open_here()
    outcomes = await asyncio.gather(*(run_python(sandbox, "print(1)") for _ in range(30)))
    assert {outcome.stdout for outcome in outcomes} == {"1\n"}
    await asyncio.sleep(6)  # longer than they are kept
    assert (await run_python(sandbox, "print(2)")).stdout == "2\n"


async def test_a_job_can_add_variables(open_here: OpenSandbox) -> None:
    sandbox = await open_here()
    shown = "import os; print(os.environ.get('GIT_AUTHOR_NAME'))"
    assert (await run_python(sandbox, shown, environment={"GIT_AUTHOR_NAME": "A"})).stdout == "A\n"
    assert (await run_python(sandbox, shown)).stdout == "None\n"


async def test_programs_take_text_for_utf_8_and_sort_it_by_its_bytes(open_here: OpenSandbox) -> None:
    sandbox = await open_here()
    program = sandbox.find_program("sh")
    assert program is not None
    script = r"printf é | wc -m; printf '%s\n' b é B a | sort | tr '\n' ' '"
    outcome = await sandbox.run(Job(argv=(program, "-c", script), access=Access.READ_ONLY))
    assert outcome.stdout == "1\nB a b é "
