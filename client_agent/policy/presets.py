"""Sets of rules that a user can turn on by name."""

from __future__ import annotations

import msgspec

from client_agent.policy.decision import Risk
from client_agent.policy.rules import RuleDraft


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that belong together."""

    name: str
    title: str
    rules: tuple[RuleDraft, ...]


def _approve_commands(priority: int, note: str, *patterns: str) -> tuple[RuleDraft, ...]:
    return tuple(
        RuleDraft(
            auto_approve=True, server_id="shell", tool_name="execute_command", argument_pattern=pattern,
            priority=priority, note=note,
        )
        for pattern in patterns
    )  # fmt: skip


PRESETS: tuple[Preset, ...] = (
    Preset(
        name="read-only-git",
        title="Look at the repository without a question; whatever changes it is still asked about.",
        rules=_approve_commands(
            50, "read-only-git",
            "git --version", "git status", "git status -...", "git log -...", "git show -...", "git diff -...",
            "git blame -...", "git grep -...", "git shortlog -...", "git describe -...", "git rev-parse -...",
            "git rev-list -...", "git ls-files -...", "git ls-tree -...", "git show-ref -...", "git merge-base ...",
            "git branch", "git branch -a", "git branch -r", "git branch -v", "git branch -vv", "git branch --list ...",
            "git branch --show-current", "git tag", "git tag --list ...", "git tag -l ...", "git remote",
            "git remote -v", "git stash list", "git reflog", "git config --list", "git config --get *",
        ),
    ),
    Preset(
        name="tests",
        title="Run the project's tests without a question; being programs, they can change anything in the workspace.",
        rules=_approve_commands(
            50, "tests",
            "npm test", "npm test ...", "npm run test", "npm run test:*",
            "python -m pytest -...", "python3 -m pytest -...", "python -m unittest -...", "python3 -m unittest -...",
        ),
    ),
    Preset(
        name="write-text",
        title="Write text and source files without a question; other files are still asked about.",
        rules=(
            RuleDraft(
                auto_approve=True, server_id="filesystem", tool_name="write_file", priority=50, note="write-text"
            ),
        ),
    ),
    Preset(
        name="look-ups",
        title="Let every look-up run, also where another preset asks about everything.",
        rules=(RuleDraft(auto_approve=True, priority=-50, max_risk=Risk.LOW, note="look-ups"),),
    ),
    Preset(
        name="ask-everything",
        title="Ask about every call that no other rule approves, look-ups too.",
        rules=(RuleDraft(auto_approve=False, priority=-100, note="ask-everything"),),
    ),
)  # fmt: skip


def find_preset(name: str) -> Preset | None:
    return next((preset for preset in PRESETS if preset.name == name), None)
