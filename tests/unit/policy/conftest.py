"""A workspace on a real disk, with something beside it that no call may reach."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from client_agent.config import Policy, Workspace, local_workspace
from client_agent.policy.decision import Decision, Inspect, PathFacts, PathKind, Reason
from client_agent.policy.judge import Judge
from client_agent.policy.paths import Protection, spelling_problem
from client_agent.policy.rules import NO_RULES, RuleBook
from client_agent.protocol.calls import Call

Decide = Callable[..., Decision]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that holds the workspace `ws` and, beside it, `outside` and `ws-evil`."""
    base = tmp_path_factory.mktemp("place").resolve()
    for name in ("ws/src/deep", "ws/tests", "ws/x", "outside", "ws-evil"):
        (base / name).mkdir(parents=True)
    for name in ("ws/README.md", "ws/a.txt", "ws/src/main.py", "ws/.env", "outside/secret.txt", "ws-evil/secret.txt"):
        (base / name).write_text("text\n", encoding="utf-8")
    os.symlink(base / "outside", base / "ws/link")
    os.symlink("../../outside", base / "ws/src/relative_link")
    os.symlink("link", base / "ws/chain")
    os.symlink("src", base / "ws/inner")
    os.mkfifo(base / "ws/fifo")
    return base


@pytest.fixture(scope="module")
def root(place: Path) -> Path:
    return place / "ws"


@pytest.fixture(scope="module")
def workspace(root: Path) -> Workspace:
    return local_workspace(root)


@pytest.fixture(scope="module")
def inspect(root: Path) -> Inspect:
    """The facts about paths, from the disk itself."""
    protection = Protection()

    def facts(path: str) -> PathFacts:
        problem = spelling_problem(path)
        real = "" if problem else os.path.realpath(os.path.join(root, path))
        if problem is None and real != str(root) and not real.startswith(f"{root}/"):
            problem = Reason("path_outside", "the path leads outside the workspace")
        if problem is not None:
            return PathFacts(spelled=path, relative=None, kind=PathKind.MISSING, refusal=problem)
        relative = os.path.relpath(real, root)
        refusal = protection.find(relative) or protection.find(os.path.normpath(path))
        return PathFacts(spelled=path, relative=relative, kind=kind_of(Path(real)), refusal=refusal)

    return facts


def kind_of(path: Path) -> PathKind:
    if not path.exists():
        return PathKind.MISSING
    if path.is_dir():
        return PathKind.DIRECTORY
    return PathKind.FILE if path.is_file() else PathKind.SPECIAL


def make_call(*argv: str) -> Call:
    return Call(tool_id="t", tool_name="execute_command", tool_params={"command": argv[0], "args": list(argv[1:])})


@pytest.fixture(scope="module")
def decide(workspace: Workspace, inspect: Inspect) -> Decide:
    """Decides a command line given as separate words."""
    judge = Judge(workspace)

    def decide_command(*argv: str, rules: RuleBook = NO_RULES) -> Decision:
        return judge.decide(make_call(*argv), inspect, rules)

    return decide_command


@pytest.fixture
def decide_with(workspace: Workspace, inspect: Inspect) -> Callable[[Policy], Decide]:
    """Decides under another policy."""
    import msgspec

    def build(policy: Policy) -> Decide:
        judge = Judge(msgspec.structs.replace(workspace, policy=policy))
        return lambda *argv: judge.decide(make_call(*argv), inspect)

    return build
