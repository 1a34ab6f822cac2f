"""`python -m benchmarks.peers`: the program beside its peers, the same work, turn about, in one run."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from benchmarks import plots, report
from benchmarks.fixtures import KIB, MIB, Files
from benchmarks.machine import Machine, describe_machine
from benchmarks.peers.catalogue import CANDIDATES, Candidate
from benchmarks.peers.peer import Peer, PeerFailed
from benchmarks.processes import ROOT, resident_mib
from benchmarks.stage import FLOOR, OURS, Stage, Work, open_stage, run_to_its_end
from benchmarks.timing import Batch, Summary, summarize, take_turns
from benchmarks.work.listings import LARGE_TREE

SCRATCH = ROOT / "benchmarks" / ".peers"
RESULTS = ROOT / "benchmarks" / "results"
PUBLISHED = ROOT / "docs" / "benchmarks"
_BATCH_S = 20.0  # who takes longer for one round of the work is told so, and is not waited for
Ask = Callable[[Peer], Awaitable[int]]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the comparison: the call for us, and the same asked of a peer."""

    title: str
    unit: str
    work: Work
    ask: Ask
    count: int
    repeats: int = 3
    in_flight: int = 1


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What came out: p50 and p99 for each, and why somebody is missing."""

    title: str
    unit: str
    values: dict[str, Summary]
    missing: dict[str, str] = {}


def make_tasks(files: Files) -> list[Task]:
    small, large, tree = files.text(4 * KIB), files.text(MIB), files.tree(LARGE_TREE)

    def reading(name: str) -> tuple[Work, Ask]:
        path = str(files.root / name)
        return Work(tool_name="read_file", tool_params={"path": name}), lambda peer: peer.read(path)

    (small_work, ask_small), (large_work, ask_large) = reading(small), reading(large)
    listing = Work(tool_name="list_directory", tool_params={"path": tree, "recursive": True, "pattern": "*"})
    running = Work(tool_name="execute_command", tool_params={"command": "echo", "args": ["x"]})
    return [
        Task(title="read 4 KiB", unit="ms", work=small_work, ask=ask_small, count=100, repeats=5),
        Task(title="read 1 MiB", unit="ms", work=large_work, ask=ask_large, count=15),
        Task(title="read 4 KiB, 50 in flight", unit="/s", work=small_work, ask=ask_small, count=200, in_flight=50),
        Task(
            title="list a tree of 100k files (ours: the first 1,000)",
            unit="ms",
            work=listing,
            ask=lambda peer: peer.list_tree(str(files.root / tree)),
            count=1,
        ),
        Task(title="run echo (ours sandboxed)", unit="ms", work=running, ask=lambda peer: peer.run("echo x"), count=40),
    ]


async def ask_many(peer: Peer, task: Task) -> Batch:
    """So many calls of a peer, each timed from the request to the whole answer. Raises PeerFailed."""
    slots = asyncio.Semaphore(task.in_flight)
    latencies: list[float] = []

    async def one() -> None:
        async with slots:
            began = time.perf_counter()
            if await task.ask(peer) <= 0:
                raise PeerFailed("an empty answer")
            latencies.append(time.perf_counter() - began)

    began = time.perf_counter()
    async with asyncio.timeout(_BATCH_S), asyncio.TaskGroup() as calls:
        for _ in range(task.count):
            calls.create_task(one())
    return Batch(latencies_s=latencies, wall_s=time.perf_counter() - began)


async def compare(stage: Stage, peers: dict[str, Peer], task: Task) -> Line:
    missing: dict[str, str] = {}
    contenders: dict[str, Callable[[], Awaitable[Batch]]] = {}
    floor, ours = await stage.floor(), await stage.ours()
    if task.work.tool_name == "read_file":  # of the others the bare client does less than anybody here
        contenders[FLOOR] = lambda: floor.do(task.work, task.count, in_flight=task.in_flight)
    contenders[OURS] = lambda: ours.do(task.work, task.count, in_flight=task.in_flight)
    for name, peer in peers.items():
        try:
            await ask_many(peer, task)
        except* (PeerFailed, TimeoutError, aiohttp.ClientError) as errors:
            missing[name] = str(errors.exceptions[0]) or "not done in time"
        else:
            contenders[name] = lambda peer=peer: ask_many(peer, task)  # type: ignore[misc]
    comparison = await take_turns(contenders, repeats=task.repeats, warm_up=0, budget_s=30)
    of = comparison.rates if task.unit == "/s" else comparison.latencies_ms
    return Line(title=task.title, unit=task.unit, values={name: of(name) for name in contenders}, missing=missing)


async def start_all(stack: AsyncExitStack, workspace: Path) -> tuple[dict[str, Peer], dict[str, str], list[Line]]:
    """The peers that could be installed and started, their versions, and what starting and idling cost."""
    peers: dict[str, Peer] = {}
    versions: dict[str, str] = {}
    started, idle = Line(title="cold start", unit="ms", values={}), Line(title="memory, idle", unit="MiB", values={})
    for candidate in CANDIDATES:
        print(f"  {candidate.name}: installing and starting", file=sys.stderr, flush=True)
        try:
            peer, version, took_s = await _start(candidate, workspace)
        except PeerFailed as error:
            versions[candidate.name] = f"not measured: {error}"
            continue
        stack.push_async_callback(peer.stop)
        peers[candidate.name], versions[candidate.name] = peer, version
        started.values[candidate.name] = summarize([1e3 * took_s])
    await asyncio.sleep(2)
    for name, peer in peers.items():
        idle.values[name] = summarize([resident_mib(peer.pid)])
    return peers, versions, [started, idle]


async def _start(candidate: Candidate, workspace: Path) -> tuple[Peer, str, float]:
    place = SCRATCH / candidate.name.replace(" ", "-")
    place.mkdir(parents=True, exist_ok=True)
    version = await asyncio.to_thread(candidate.install, place)
    await (await candidate.start(place, workspace)).stop()  # once before, so that all are measured with warm files
    began = time.perf_counter()
    peer = await candidate.start(place, workspace)
    return peer, version, time.perf_counter() - began


async def _our_start(stage: Stage, lines: list[Line]) -> None:
    async with stage.start_ours("first"):
        pass
    async with stage.start_ours("second") as ours:
        lines[0].values[OURS] = summarize([1e3 * await ours.connected_after_s()])
        await asyncio.sleep(2)
        lines[1].values[OURS] = summarize([resident_mib(ours.pid)])


async def run(scratch: Path, publish: bool) -> None:
    files = Files(scratch / "workspace")
    tasks = make_tasks(files)
    current = asyncio.current_task()
    assert current is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, current.cancel)
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(open_stage(files, scratch))
        peers, versions, lines = await start_all(stack, files.root)
        await _our_start(stage, lines)
        for task in tasks:
            print(f"  {task.title}", file=sys.stderr, flush=True)
            lines.append(await compare(stage, peers, task))
    machine = describe_machine()
    names = [OURS, *peers, FLOOR]
    print(report.heading(machine))
    print("; ".join(f"{name} {version}" for name, version in versions.items()), end="\n\n")
    print(report.table(["p50 (p99)", *names], [_row(line, names) for line in lines]))
    for line in lines:
        for name, reason in line.missing.items():
            print(f"{line.title}: not by {name}: {reason}")
    content = _to_json(machine, versions, lines)
    report.save(RESULTS / f"peers-{datetime.now(UTC):%Y%m%d-%H%M%S}.json", content)
    if publish:
        report.save(PUBLISHED / "peers.json", content)
        report.save(PUBLISHED / "peers.md", _markdown(machine, versions, lines, names))
        plots.save_pictures(PUBLISHED, {"peers": plots.plot_peers(lines, names, machine)})


def _row(line: Line, names: list[str]) -> list[str]:
    return [f"{line.title}, {line.unit}", *(_cell(line, name) for name in names)]


def _cell(line: Line, name: str) -> str:
    value = line.values.get(name)
    if value is None:
        return "–"
    tail = f" ({report.number(value.p99)})" if line.unit == "ms" and value.count > 1 else ""
    return report.number(value.p50) + tail


def _markdown(machine: Machine, versions: dict[str, str], lines: list[Line], names: list[str]) -> bytes:
    rows = [["p50 (p99)", *names], ["---"] * (len(names) + 1), *(_row(line, names) for line in lines)]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    stated = "; ".join(f"{name} {version}" for name, version in versions.items())
    return f"{table}\n\n{report.heading(machine)}; {stated}\n".encode()


def _to_json(machine: Machine, versions: dict[str, str], lines: list[Line]) -> bytes:
    body: dict[str, Any] = {
        "machine": msgspec.to_builtins(machine),
        "peers": versions,
        "lines": msgspec.to_builtins(lines),
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--publish", action="store_true", help="also into docs/benchmarks, with the picture")
    options = parser.parse_args()
    return run_to_its_end(lambda scratch: run(scratch, options.publish))


if __name__ == "__main__":
    sys.exit(main())
