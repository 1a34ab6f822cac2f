"""Random shell text of which every part is known: bash runs no other command than those that were judged."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from client_agent.policy.commands.findings import Findings
from client_agent.policy.commands.shell_text import ShellJudge
from client_agent.policy.decision import Assessment, PathFacts, PathKind, Risk

BASH = shutil.which("bash")
TRIES = 4_000
# `say` is the only command there is. It prints its words, and ends each and itself with what no known text holds.
SAY = "say() { [ $# = 0 ] || printf '%s\\0' \"$@\"; printf '\\1'; }\n"
PIECES = [
    *"xy12'\"\\$~{}[]*?!#=-/.,:@%^+;<()é\t\n\u00a0\r", "  ", " ", " ", " ", "say ", "say x",
    "; say ", "&& say ", "|| say ", "! say", "=x", "--", " -x", "$'", "${", "((", "[[",
    "<<", "<<<", "if", "fi", "do", "in", "case", "for",
]  # fmt: skip


def judge(text: str) -> list[list[str]] | None:
    """The commands that were judged; None where the text was not known whole."""
    findings, judged = Findings(), list[list[str]]()

    def command(argv: list[str]) -> Assessment:
        judged.append(argv)
        return Assessment(risk=Risk.LOW)

    def inspect(path: str) -> PathFacts:
        return PathFacts(spelled=path, relative=path, kind=PathKind.FILE)

    ShellJudge(findings, inspect, command).judge(text)
    return judged if findings.risk is Risk.LOW else None


@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_bash_gets_the_words_that_were_judged(tmp_path: Path) -> None:
    chance = random.Random(1)
    texts = ["say " + "".join(chance.choices(PIECES, k=chance.randint(1, 10))) for _ in range(TRIES)]
    known = [(text, judged) for text in texts if (judged := judge(text)) is not None]
    assert len(known) > TRIES // 20
    for text, judged in known:
        ran = subprocess.run(
            [str(BASH), "--norc", "--noprofile", "-c", SAY + text],
            cwd=tmp_path,
            env={"PATH": "/nonexistent", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        told = [line.split("\0")[:-1] for line in ran.stdout.decode().split("\1")[:-1]]
        assert [words for words in told if ["say", *words] not in judged] == [], text
