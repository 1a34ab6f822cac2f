"""Presets let through what their titles say, and nothing more."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import msgspec
import pytest

from client_agent.config import Workspace
from client_agent.policy.decision import Decision, Inspect, Verdict
from client_agent.policy.judge import Judge
from client_agent.policy.presets import PRESETS, find_preset
from client_agent.policy.rules import Rule, RuleBook, check_draft
from client_agent.protocol.calls import Call

Decide = Callable[..., Decision]


def book(*names: str) -> RuleBook:
    drafts = [draft for preset in PRESETS if preset.name in names for draft in preset.rules]
    return RuleBook(
        Rule(id=f"{draft.note}-{number}", created_at=0, updated_at=0, **msgspec.structs.asdict(draft))
        for number, draft in enumerate(drafts)
    )


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_every_preset_holds_usable_rules_and_says_what_it_is_for(preset: object) -> None:
    found = find_preset(preset.name)  # type: ignore[attr-defined]
    assert found is not None
    assert found.title.endswith(".")
    for draft in found.rules:
        check_draft(draft, 0)


def test_there_is_no_preset_of_another_name() -> None:
    assert find_preset("everything") is None


@pytest.mark.parametrize(
    ("preset", "line", "verdict"),
    [
        ("read-only-git", "git status", "run"),
        ("read-only-git", "git log --oneline -5 -- src", "run"),
        ("read-only-git", "git diff --stat main...HEAD", "run"),
        ("read-only-git", "git config --get user.name", "run"),
        ("read-only-git", "git log --output=x", "ask"),
        ("read-only-git", "git diff --ext-diff", "ask"),
        ("read-only-git", "git log --format=%H", "run"),
        ("read-only-git", "git log --format=%G?", "ask"),
        ("read-only-git", "git show --pretty=format:%+GS", "ask"),
        ("read-only-git", "git branch --list --format=%(signature)", "ask"),
        ("read-only-git", "git tag --list --sort=-signature:grade", "ask"),
        ("read-only-git", "git branch new", "ask"),
        ("read-only-git", "git branch -D old", "ask"),
        ("read-only-git", "git tag v1", "ask"),
        ("read-only-git", "git commit -m x", "ask"),
        ("read-only-git", "git remote add o x", "ask"),
        ("read-only-git", "git stash", "ask"),
        ("read-only-git", "git config user.name x", "ask"),
        ("read-only-git", "git -C src log", "ask"),
        ("read-only-git", "git diff /dev/null /etc/passwd", "refuse"),
        ("read-only-git", "npm test", "ask"),
        ("tests", "npm test", "run"),
        ("tests", "npm run test:unit", "run"),
        ("tests", "python3 -m pytest -q tests", "run"),
        ("tests", "npm run deploy", "ask"),
        ("tests", "python -m pytest --basetemp=src", "ask"),
        ("tests", "python -m pytest --junitxml=src/main.py", "ask"),
        ("tests", "python -m pytest --junit=src/main.py", "ask"),
        ("tests", "python -m pytest -q --pastebin=all", "ask"),
        ("tests", "npm test --script-shell=./x", "ask"),
        ("tests", "python3 -m http.server", "ask"),
        ("ask-everything", "ls", "ask"),
        ("look-ups", "ls", "run"),
        ("look-ups", "git status", "ask"),
    ],
)
def test_a_preset_lets_through_what_it_says(decide: Decide, preset: str, line: str, verdict: str) -> None:
    assert decide(*shlex.split(line), rules=book(preset)).verdict is Verdict(verdict)


def test_a_preset_for_writing_lets_text_through_and_nothing_else(workspace: Workspace, inspect: Inspect) -> None:
    def verdict(tool: str, path: str, **params: str) -> Verdict:
        call = Call(tool_id="t", tool_name=tool, tool_params={"path": path, **params})
        return Judge(workspace).decide(call, inspect, book("write-text")).verdict

    assert verdict("write_file", "src/x.py", content="") is Verdict.RUN
    assert verdict("write_file", "x.sh", content="") is Verdict.ASK
    assert verdict("write_file", ".env", content="") is Verdict.REFUSE
    assert verdict("read_file", "a.txt") is Verdict.RUN


def test_presets_work_together(decide: Decide) -> None:
    rules = book("ask-everything", "look-ups", "read-only-git")
    assert decide("ls", rules=rules).verdict is Verdict.RUN
    assert decide("git", "status", rules=rules).verdict is Verdict.RUN
    assert decide("git", "push", rules=rules).verdict is Verdict.ASK
