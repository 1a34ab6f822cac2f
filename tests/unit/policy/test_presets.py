"""Presets let through what their titles say, and nothing more."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import msgspec
import pytest

from client_agent.policy.decision import Decision, Verdict
from client_agent.policy.presets import PRESETS, find_preset
from client_agent.policy.rules import Rule, RuleBook, check_draft

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
        ("tests", "npm test --script-shell=./x", "ask"),
        ("tests", "python3 -m http.server", "ask"),
        ("ask-everything", "ls", "ask"),
        ("look-ups", "ls", "run"),
        ("look-ups", "git status", "ask"),
    ],
)
def test_a_preset_lets_through_what_it_says(decide: Decide, preset: str, line: str, verdict: str) -> None:
    assert decide(*shlex.split(line), rules=book(preset)).verdict is Verdict(verdict)


def test_presets_work_together(decide: Decide) -> None:
    rules = book("ask-everything", "look-ups", "read-only-git")
    assert decide("ls", rules=rules).verdict is Verdict.RUN
    assert decide("git", "status", rules=rules).verdict is Verdict.RUN
    assert decide("git", "push", rules=rules).verdict is Verdict.ASK
