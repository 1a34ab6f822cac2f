"""Ten thousand hostile paths, and a directory that turns into a link while it is used: nothing outside is opened.

On Linux the kernel itself is asked to tell of anything in the outside directory that is opened, changed or made.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from client_agent.errors import CallError
from client_agent.policy.paths import Protection
from client_agent.workspace import openat2
from client_agent.workspace.listing import Depth
from client_agent.workspace.posix import Directory
from client_agent.workspace.root import NotCached, Root
from client_agent.workspace.writing import Parents, WriteMode

INSIDE = b"inside"
OUTSIDE = b"OUTSIDE"
NO_SUCH_SYSCALL = 100_000
PATHS = 10_000


class Watch:
    """Whether anything in some directories was opened, read, changed, made or removed since."""

    _EVENTS = 0x1 | 0x2 | 0x4 | 0x20 | 0x40 | 0x80 | 0x100 | 0x200  # access modify attrib open moved create delete

    def __init__(self, *directories: Path) -> None:
        self._fd = -1
        if sys.platform != "linux":
            return
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._fd >= 0
        for directory in directories:
            assert libc.inotify_add_watch(self._fd, os.fsencode(directory), self._EVENTS) >= 0

    def saw_something(self) -> bool:
        if self._fd < 0:
            return False
        try:
            return bool(os.read(self._fd, 65_536))
        except BlockingIOError:
            return False

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


class World:
    """A workspace full of links, beside a directory nobody may touch."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="client-agent-test-")).resolve()
        self.ws = self.base / "ws"
        self.outside = self.base / "outside"
        (self.outside / "sub").mkdir(parents=True)
        for name in ("f.txt", "sub/f.txt", "secret.txt"):
            (self.outside / name).write_bytes(OUTSIDE)
        (self.ws / "d/e").mkdir(parents=True)
        for name in ("f.txt", "d/f.txt", "d/e/f.txt", "per%2e%2ecent", "..."):
            (self.ws / name).write_bytes(INSIDE)
        self.links = {
            "out": str(self.outside),
            "outfile": str(self.outside / "f.txt"),
            "up": "..",
            "d/upup": "../../outside",
            "slash": "/",
            "proc": "/proc/self/root",
            "cwd": "/proc/self/cwd",
            "in": "d",
            "d/back": "../d/e",
            "absolute": str(self.ws / "d"),
            "round": f"../{self.ws.name}/d",
            "near": f"{self.ws}/../outside",
            "chain": "out",
            "loop": "loop",
            "dangling": "../outside/new.txt",
        }
        for name, target in self.links.items():
            (self.ws / name).symlink_to(target)
        os.mkfifo(self.ws / "fifo")
        self.watch = Watch(self.outside, self.outside / "sub")

    def is_untouched(self) -> bool:
        """Asked of the kernel first: looking for oneself is touching."""
        return not self.watch.saw_something() and sorted(os.listdir(self.base)) == ["outside", "ws"]

    def tidy(self) -> None:
        """As at the beginning, for the places that tests of swaps write to."""
        for place in (self.ws, self.ws / "d", self.ws / "d/e"):
            (place / "f.txt").write_bytes(INSIDE)
            shutil.rmtree(place / "new", ignore_errors=True)

    def remove(self) -> None:
        self.watch.close()
        shutil.rmtree(self.base)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.remove()


@pytest.fixture(params=["openat2", "walk"])
def root(request: pytest.FixtureRequest, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Root]:
    if request.param == "walk":
        monkeypatch.setattr(openat2, "_NUMBER", NO_SUCH_SYSCALL)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # ten thousand writes, none of which must last
    root = Root(world.ws, Protection())
    assert (root._finder is None) == (request.param == "walk")
    yield root
    root.close()


NAMES = [
    "f.txt", "d", "e", "back", "upup", "out", "outfile", "up", "slash", "proc", "cwd", "in", "absolute", "round",
    "near", "chain", "loop", "dangling", "fifo", "per%2e%2ecent", "outside", "ws", "sub", "secret.txt", "new", "etc",
    "passwd", "self", "root", "fd", "0", ".env",
]  # fmt: skip
LONG = ["x" * 255, "x" * 256]
CLIMBS = [
    "..",
    "..",
    "..",
    ".",
    "",
    "...",
    "....",
    ".. ",
    " ..",
    "..;",
    "%2e%2e",
    "..%2f",
    "%c0%ae%c0%ae",
    "..\\",
    "\\..",
    "．．",
    "‥",
    "..\0",
    "~",
]
SEPARATORS = ["/", "/", "/", "/", "//", "/./", "\\", "%2f", "∕", "／", "\n"]
STARTS = [
    "", "", "", "/", "//", "{ws}/", "{ws}/../", "{base}/", "{base}/outside/", "/proc/self/root{base}/",
    "/proc/self/cwd/", "/dev/fd/", "./", "../", "file://{ws}/",
]  # fmt: skip
NOT_SURROGATES = [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]


def make_part(chance: random.Random) -> str:
    kind = chance.choice((NAMES, NAMES, CLIMBS, LONG, None))
    if kind is not None:
        return chance.choice(kind)
    return "".join(map(chr, chance.choices(range(1, 128) if chance.random() < 0.5 else NOT_SURROGATES, k=8)))


def make_hostile_path(chance: random.Random) -> str:
    """Relative and absolute, of real and imagined names, with all that ever passed for "up" between them.

    `{ws}` and `{base}` stand for where the workspace is.
    """
    parts = [make_part(chance) + chance.choice(SEPARATORS) for _ in range(chance.randint(1, 7))]
    path = chance.choice(STARTS) + "".join(parts)
    return path if chance.random() < 0.5 else path.rstrip("/")


def is_inside(world: World, relative: str) -> bool:
    return (world.ws / relative).resolve().is_relative_to(world.ws)


def attempt(action: Callable[[], None]) -> None:
    with suppress(CallError, NotCached):
        action()


def test_no_path_of_ten_thousand_opens_anything_outside(world: World, root: Root) -> None:
    chance = random.Random(1)
    for _ in range(PATHS):
        template = make_hostile_path(chance)
        path = template.replace("{ws}", str(world.ws)).replace("{base}", str(world.base))

        def inspect(path: str = path) -> None:
            facts = root.inspect(path)
            assert facts.refusal is not None or (facts.relative is not None and is_inside(world, facts.relative))

        def inspect_cached(path: str = path) -> None:
            assert root.inspect_cached(path) is not None

        def read(path: str = path) -> None:
            file = root.read(path, 1000)
            assert file.data.startswith(INSIDE)
            assert is_inside(world, file.relative)

        def read_cached(path: str = path) -> None:
            assert root.read_cached(path, 1000).data.startswith(INSIDE)

        def write(path: str = path) -> None:
            written = root.write(path, INSIDE, parents=Parents.CREATE, max_bytes=1000)
            assert (world.ws / written.relative).read_bytes() == INSIDE

        def append(path: str = path) -> None:
            root.write(path, INSIDE, mode=WriteMode.APPEND, max_bytes=100)

        def list_entries(path: str = path) -> None:
            found = root.list(path, depth=Depth.ALL, max_entries=50)
            assert is_inside(world, found.relative)

        for action in (inspect, inspect_cached, read, read_cached, write, append, list_entries):
            attempt(action)
        assert world.is_untouched(), path


def test_the_watch_would_have_seen_it(world: World) -> None:
    assert not world.watch.saw_something()
    (world.outside / "f.txt").read_bytes()
    assert world.watch.saw_something() == (sys.platform == "linux")


class Swap:
    """Turns a directory or file of the workspace into a link to one outside, and back, in one step each."""

    def __init__(self, world: World, name: str) -> None:
        self._name = name
        self._bait = world.ws / "bait"
        self._bait.symlink_to(world.outside / "f.txt" if name == "f.txt" else world.outside)
        self._directory, _ = Directory.open_root(world.ws)
        self.count = 0

    def do(self) -> None:
        assert self._directory.exchange(self._name, "bait")
        self.count += 1

    def end(self) -> None:
        if self.count % 2:
            self.do()
        self._directory.close()
        self._bait.unlink()


def actions(root: Root, swapped: str) -> dict[str, Callable[[], None]]:
    """What is done through the name that is swapped; each raises CallError, or does what it should inside."""
    parent, path = (".", swapped) if swapped == "f.txt" else (swapped, f"{swapped}/f.txt")

    def read() -> None:
        assert root.read(path, 1000).data.startswith(INSIDE)

    def read_cached() -> None:
        assert root.read_cached(path, 1000).data.startswith(INSIDE)

    def replace() -> None:
        root.write(path, INSIDE, max_bytes=1000)

    def append() -> None:
        root.write(path, INSIDE, mode=WriteMode.APPEND, max_bytes=1000)

    def write_new() -> None:
        root.write(f"{parent}/new/n.txt", INSIDE, parents=Parents.CREATE, max_bytes=1000)

    def list_entries() -> None:
        found = root.list(parent, depth=Depth.ALL, max_entries=50)
        assert "secret.txt" not in {entry.name for entry in found.entries}

    return {action.__name__: action for action in (read, read_cached, replace, append, write_new, list_entries)}


SYSTEM_CALLS = ("open", "stat", "fstat", "readlink", "access", "mkdir", "link", "rename", "unlink", "write", "scandir")


@contextmanager
def before_each_call(hook: Callable[[], None]) -> Iterator[None]:
    """Calls the hook before whatever the workspace asks of the system."""

    def wrap(call: Callable[..., object]) -> Callable[..., object]:
        def hooked(*args: object, **kwargs: object) -> object:
            hook()
            return call(*args, **kwargs)

        return hooked

    with pytest.MonkeyPatch.context() as patch:
        for name in SYSTEM_CALLS:
            patch.setattr(os, name, wrap(getattr(os, name)))
        patch.setattr(openat2, "_syscall", wrap(openat2._syscall))
        yield


def run_with_swap_at(step: int, action: Callable[[], None], swap: Swap) -> bool:
    """Swaps just before the system call of this number; False when the action came to its end before."""
    calls = 0

    def hook() -> None:
        nonlocal calls
        if calls == step:
            swap.do()
        calls += 1

    with before_each_call(hook):
        attempt(action)
    return calls > step


@pytest.mark.parametrize("first", ["as it was", "swapped"])
@pytest.mark.parametrize("swapped", ["d", "d/e", "f.txt"])
def test_a_swap_before_any_system_call_gains_nothing(world: World, root: Root, swapped: str, first: str) -> None:
    for name, action in actions(root, swapped).items():
        for step in range(500):
            world.tidy()
            swap = Swap(world, swapped)
            if first == "swapped":
                swap.do()
            reached = run_with_swap_at(step, action, swap)
            seen = not world.is_untouched()
            swap.end()
            assert not seen, (name, step)
            if not reached:
                break
        assert not reached


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the child only renames and ends
@pytest.mark.parametrize("swapped", ["d", "d/e", "f.txt"])
def test_swaps_at_full_speed_gain_nothing(world: World, root: Root, swapped: str) -> None:
    """Another process swaps as fast as it can, while this one goes through the name."""
    swap = Swap(world, swapped)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(writing)
            os.set_blocking(reading, False)
            while not is_closed(reading):
                for _ in range(50):
                    swap.do()
            os._exit(0)
        finally:
            os._exit(1)
    try:
        for action, _ in itertools.product(actions(root, swapped).values(), range(300)):
            attempt(action)
    finally:
        os.close(writing)
        _, status = os.waitpid(child, 0)
        os.close(reading)
        swap.end()
    assert status == 0
    assert world.is_untouched()


def is_closed(pipe: int) -> bool:
    try:
        return os.read(pipe, 1) == b""
    except BlockingIOError:
        return False
