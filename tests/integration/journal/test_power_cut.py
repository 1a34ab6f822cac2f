"""The power goes: what is left is what had reached the disk. A real file system, its disk copied at that moment."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

StartChild = Callable[..., subprocess.Popen[str]]
MOUNT = 'mount -o loop "$0" "$1" && shift && exec "$@"'

CUT = """
import shutil
mounted, disk, step = (Path(each) for each in sys.argv[1:4])

async def main():
    journal = Journal(mounted / "state")
    ledger = journal.recover("main").ledger
    ledger.admit(call("first"), effects=True, event_id="1")
    ledger.decide("first", RUN)
    await ledger.begin("first")
    await ledger.finish("first", CallState.COMPLETED, b"done")  # the file and all its names are on the disk
    effects = step.name != "read"
    ledger.admit(call("t"), effects=effects, event_id="2")
    ledger.decide("t", RUN)
    await ledger.begin("t")
    if step.name != "begin":
        await ledger.finish("t", CallState.COMPLETED, b"result")
    shutil.copyfile(disk, str(disk) + ".cut")
    os._exit(0)

asyncio.run(main())
"""

LOOK = """
journal = Journal(Path(sys.argv[1]) / "state")
recovered = journal.recover("main")
found = recovered.ledger.find("t")
say(found and found.state.value, found and found.failure_code, recovered.ledger.last_event_id)
say(sorted(due.post.target for due in recovered.ledger.outbox.next_due(10, float("inf"))))
journal.close()
"""


def mounting(disk: Path, place: Path) -> list[str]:
    return ["unshare", "-m", "sh", "-c", MOUNT, str(disk), str(place)]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """An empty file system in a file. Only root may mount one, and not in every container."""
    disk, make = tmp_path / "disk", shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin")
    with disk.open("wb") as file:
        file.truncate(16 * 2**20)
    (tmp_path / "mounted").mkdir()
    if make is None or subprocess.run([make, "-q", disk], capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system of its own cannot be made here")
    if subprocess.run([*mounting(disk, tmp_path / "mounted"), "true"], capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own may only be mounted by root")
    return disk


@pytest.mark.parametrize(
    ("step", "left"),
    [
        ("begin", ["FAILED interrupted 2", "['first', 't']"]),
        ("finish", ["COMPLETED None 2", "['first', 't']"]),
        ("read", ["None None 1", "['first']"]),  # it did not wait for the disk: the server sends it again
    ],
)
def test_what_somebody_waited_for_survives_the_loss_of_power(
    start_child: StartChild, tmp_path: Path, disk: Path, step: str, left: list[str]
) -> None:
    place = tmp_path / "mounted"
    _, errors = start_child(CUT, place, disk, step, wrapper=mounting(disk, place)).communicate(timeout=60)
    assert errors == ""
    cut = Path(f"{disk}.cut")
    out, errors = start_child(LOOK, place, wrapper=mounting(cut, place)).communicate(timeout=60)
    assert (out.splitlines(), errors) == (left, "")
