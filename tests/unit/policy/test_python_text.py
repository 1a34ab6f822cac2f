"""Python text on a command line: ordinary text is MEDIUM, what it cannot be trusted with is HIGH and says why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from client_agent.policy.decision import Decision, Risk, Verdict

Decide = Callable[..., Decision]


@pytest.mark.parametrize(
    "text",
    [
        "print(1)",
        "",
        "import json, sys; print(json.load(open('a.txt')))",
        "from pathlib import Path; print(Path('src/main.py').read_text())",
        "import re; print(re.compile(r'\\d').findall('1'))",
        "import os; print(os.getcwd(), os.listdir('.'))",
        "open('out.txt', 'w').write('x')",
        "x = [1]; x.remove(1); print('a/b'.split('/'), 'x' * 3, 1.5, b'/etc')",
        "import sqlite3; sqlite3.connect(':memory:').execute('select 1')",
        "print('see /etc/passwd for that')",
        "import mypackage; print(mypackage.__version__)",
    ],
)
def test_ordinary_text_is_medium(decide: Decide, text: str) -> None:
    decision = decide("python", "-c", text)
    assert (decision.verdict, decision.risk) == (Verdict.ASK, Risk.MEDIUM), decision.reasons


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import subprocess", "starts processes"),
        ("import os.path, subprocess as s", "starts processes"),
        ("from subprocess import run", "starts processes"),
        ("import os; os.system('id')", "'system'"),
        ("from os import popen", "'popen'"),
        ("import os; os.execvp('ls', ['ls'])", "'execvp'"),
        ("import urllib.request", "reaches the network"),
        ("def f():\n import socket", "reaches the network"),
        ("import ctypes", "cannot be judged"),
        ("__import__('os')", "'__import__'"),
        ("eval('1')", "'eval'"),
        ("exec('1')", "'exec'"),
        ("print(getattr(1, 'x'))", "'getattr'"),
        ("().__class__.__base__.__subclasses__()", "'__subclasses__'"),
        ("import shutil; shutil.rmtree('x')", "'rmtree'"),
        ("import os; os.remove('x')", "'remove'"),
        ("from os import remove", "'remove'"),
        ("from . import x; import pickle", "cannot be judged"),
        ("open('/etc/passwd')", "'/etc/passwd'"),
        ("open('../x')", "'../x'"),
        ("open('.env')", "'.env'"),
        ("open('~/x')", "'~/x'"),
        ("open('link/secret.txt')", "'link/secret.txt'"),
        ("print(", "cannot be parsed"),
        ("(" * 3000, "cannot be parsed"),
        ("x = 1\n" * 3000, "too long to judge"),
    ],
)
def test_text_that_can_do_more_is_high_and_says_why(decide: Decide, text: str, why: str) -> None:
    decision = decide("python3", "-c", text)
    assert (decision.verdict, decision.risk) == (Verdict.ASK, Risk.HIGH)
    assert any(why in reason.text for reason in decision.reasons), decision.reasons


def test_the_same_fact_is_told_once(decide: Decide) -> None:
    reasons = decide("python", "-c", "import socket\nimport socket").reasons
    assert len([reason for reason in reasons if "socket" in reason.text]) == 1


@pytest.mark.parametrize("argv", [("-Bc", "import socket"), ("-cimport socket",), ("-I", "-B", "-c", "import socket")])
def test_text_is_found_however_the_option_is_written(decide: Decide, argv: tuple[str, ...]) -> None:
    assert decide("python", *argv).risk is Risk.HIGH


def test_odd_escapes_in_the_text_are_no_warning_of_ours(decide: Decide) -> None:
    assert decide("python", "-c", "print('\\d')").risk is Risk.MEDIUM
