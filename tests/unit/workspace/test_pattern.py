"""Patterns of listings."""

from __future__ import annotations

import pytest

from client_agent.errors import InvalidParameters
from client_agent.workspace.pattern import Pattern


def matches(pattern: str, path: str) -> bool:
    matcher = Pattern(pattern)
    states = matcher.start
    *directories, name = path.split("/")
    for directory in directories:
        states = matcher.descend(states, directory)
    return bool(matcher.accepts(states)(name))


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*", "a"),
        ("*", "a/b"),
        ("*.py", "a.py"),
        ("*.py", "deep/down/a.py"),
        ("?.[ch]", "x/a.c"),
        ("src/*.py", "src/a.py"),
        ("./src/*.py", "src/a.py"),
        ("src/**", "src/a/b/c"),
        ("src/**/*.py", "src/a.py"),
        ("src/**/*.py", "src/a/b/c.py"),
        ("**/test/*.py", "test/a.py"),
        ("**/test/*.py", "x/y/test/a.py"),
        ("**", "a/b"),
        ("**/**/**/a", "a"),
        (".*", ".gitignore"),
        (".*", "sub/.gitignore"),
        (".github/**", ".github/workflows/ci.yml"),
        ("**/.config/*.json", "x/.config/a.json"),
        ("[!a]*", "b"),
        ("[", "["),
        ("a\nb*", "a\nbc"),
    ],
)
def test_a_pattern_matches(pattern: str, path: str) -> None:
    assert matches(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*", ".hidden"),
        ("*", ".git/config"),
        ("*", "a/.git/config"),
        ("*.py", ".hidden.py"),
        ("*.py", "a.pyc"),
        ("*.py", "a.py\n"),
        ("**", ".git/config"),
        ("**/*", ".git/config"),
        (".*", ".git/config"),
        (".git*", ".git/.gitkeep"),
        ("?git", ".git"),
        ("[.]git", ".git"),
        ("src/*.py", "src/a/b.py"),
        ("src/*.py", "x/src/a.py"),
        ("src/**", "src"),
        ("a", "A"),
        (".github/*", ".github/workflows/ci.yml"),
    ],
)
def test_a_pattern_does_not_match(pattern: str, path: str) -> None:
    assert not matches(pattern, path)


def test_nothing_is_entered_where_nothing_can_match() -> None:
    pattern = Pattern("src/*.py")
    assert pattern.descend(pattern.start, "src")
    assert not pattern.descend(pattern.start, "lib")
    assert not pattern.descend(pattern.descend(pattern.start, "src"), "deeper")
    assert not Pattern(".git").descend(Pattern(".git").start, ".git")


@pytest.mark.parametrize("pattern", ["..", "../*", "a/../*.py", "/".join("a" * 65)])
def test_a_pattern_that_makes_no_sense_is_an_error(pattern: str) -> None:
    with pytest.raises(InvalidParameters) as caught:
        Pattern(pattern)
    assert caught.value.code == "pattern_invalid"


def test_a_hostile_pattern_takes_no_longer_than_a_kind_one() -> None:
    """With a matcher that goes back over its stars this would not end."""
    assert not matches("*a" * 60 + "b", "a" * 255)
    assert matches("*a" * 60 + "*", "a" * 255)
    assert not matches("/".join(["**", "*a*"] * 32), "/".join(["b" * 100] * 200))
