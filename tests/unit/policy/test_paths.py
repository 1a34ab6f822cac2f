"""Paths judged on their text: odd spellings, climbing, protected names, globs."""

from __future__ import annotations

import re

import pytest

from client_agent.policy.paths import Protection, climbs_out, inspect_spelling, spelling_problem, translate


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", "path_empty"),
        ("a\0b", "path_control_character"),
        ("a\nb", "path_control_character"),
        ("a\x7f", "path_control_character"),
        ("\ud800", "path_not_text"),
        ("a/" * 2048, "path_too_long"),
        ("a" * 256, "path_too_long"),
        ("x/" + "é" * 128, "path_too_long"),
        ("a\uff0fb", "path_disguised"),
        ("a\uff3cb", "path_disguised"),
        ("C:\\x", "path_disguised"),
        ("\\\\host\\share", "path_disguised"),
        ("a\\..\\b", "path_disguised"),
        ("\u2024\u2024/x", "path_disguised"),
        ("a/\uff0e\uff0e/b", "path_disguised"),
    ],
)
def test_an_odd_spelling_is_refused(path: str, code: str) -> None:
    problem = spelling_problem(path)
    assert problem is not None
    assert problem.code == code


@pytest.mark.parametrize("path", ["a", "a/b", "..", "/etc", "a b", "é", "a\\b", "x" * 255, "ﬁle", "a/" * 200])
def test_an_ordinary_spelling_is_no_problem(path: str) -> None:
    assert spelling_problem(path) is None


@pytest.mark.parametrize(
    ("path", "out"),
    [
        ("..", True),
        ("a/../..", True),
        ("a/../../b", True),
        ("./..", True),
        ("a//../..", True),
        ("a/..", False),
        ("a/b/../..", False),
        ("...", False),
        ("..a", False),
        ("./a", False),
    ],
)
def test_climbing_out_is_seen_in_the_text(path: str, out: bool) -> None:
    assert climbs_out(path) is out
    assert (inspect_spelling(path).refusal is not None) is out


@pytest.mark.parametrize(
    ("path", "relative"), [("a/./b//c/", "a/b/c"), ("a/../b", "b"), (".", "."), ("a/..", "."), ("/x", None)]
)
def test_without_files_a_path_is_what_its_text_says(path: str, relative: str | None) -> None:
    assert inspect_spelling(path).relative == relative


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "a/.env",
        ".ENV",
        ".env.local",
        "prod.env",
        "x/.ssh/config",
        "id_rsa",
        "a/id_ed25519.pub",
        "k.pem",
        ".env. ",
        "．env",
        ".aws/credentials",
        ".config/gcloud/x",
        ".client-agent.toml",
        "secrets.yaml",
        "own/state/x",
        "own/state",
    ],
)
def test_secrets_and_our_own_files_are_protected(path: str) -> None:
    reason = Protection(own=["own/state"]).find(path)
    assert reason is not None
    assert reason.code == "path_protected"


@pytest.mark.parametrize("path", [".", "a.txt", ".env.example", "environment", "src/keys.py", "own/stated", "pem/x"])
def test_other_files_are_not_protected(path: str) -> None:
    assert Protection(own=["own/state"]).find(path) is None


@pytest.mark.parametrize(
    ("pattern", "path", "denied"),
    [
        ("*.bak", "a/x.bak", True),
        ("private/**", "private/a/b", True),
        ("private/**", "public/private/x", False),
        ("*/notes/*", "a/b/notes/x", True),
        ("/private/", "a/private/x", True),
        ("a/b", "a/b/c", True),
        ("a?c", "abc", True),
    ],
)
def test_a_deny_pattern_denies(pattern: str, path: str, denied: bool) -> None:
    assert (Protection(deny=[pattern]).find(path) is not None) is denied


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*", "a", True),
        ("*", "a/b", False),
        ("**", "a/b", True),
        ("**/b", "b", True),
        ("**/b", "a/c/b", True),
        ("*/b", "a/c/b", True),
        ("a?c", "a/c", False),
        ("a.b", "axb", False),
        ("a/**/b", "a/b", True),
        ("a**b", "ax/yb", True),
        ("a**b", "ax/yc", False),
        ("a*b", "ax/yb", False),
    ],
)
def test_a_glob_as_a_regular_expression(pattern: str, path: str, fits: bool) -> None:
    assert (re.fullmatch(translate(pattern), path) is not None) is fits


def test_a_plain_step_up_is_no_disguise_beside_letters_of_any_script() -> None:
    for path in ("é/../x", "e\u0301/../x", "日本/../x", "é/..", "../é", "../e\u0301"):
        assert spelling_problem(path) is None, path
    for path in ("é/..\\x", "../\uff0e\uff0e/x", "e\u0301/../..\\x"):
        assert spelling_problem(path) is not None, path
