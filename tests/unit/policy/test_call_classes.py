"""What "allow this kind for the session" covers: neither too little nor too much."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from client_agent.policy.decision import CallClass, Decision, Risk

Decide = Callable[..., Decision]


def class_of(decide: Decide, line: str) -> CallClass:
    found = decide(*shlex.split(line)).call_class
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("git commit -m x", "git commit"),
        ("npm run build -- -x", "npm run build"),
        ("git stash pop", "git stash pop"),
        ("ls -la", "ls"),
        ("python -m pytest -q", "python -m pytest"),
        ("npm install left-pad", "npm install (exactly this)"),
        ("git foo a", "git foo (exactly this)"),
        ("python -c 'print(1)'", "python (exactly this)"),
        ("npm version patch", "npm version patch"),
        ("git notes show", "git notes show"),
        ("python src/main.py -v", "python src/main.py"),
        ("make 'a b'", "make 'a b' (exactly this)"),
    ],
)
def test_a_class_is_named_by_program_and_sub_command(decide: Decide, line: str, label: str) -> None:
    assert class_of(decide, line).label == label


@pytest.mark.parametrize(
    ("allowed", "asked"),
    [
        ("git commit -m one", "git commit -m 'two three'"),
        ("git commit -a -m one", "git commit -m two"),
        ("git add a.txt", "git add src/main.py README.md"),
        ("git log --oneline -5", "git log -20"),
        ("git log", "git log --oneline --stat -3 -- src"),
        ("git commit -m x", "git commit -am y --signoff"),
        ("git commit -m x --amend", "git commit -m y"),
        ("git rm a.txt", "git rm --dry-run a.txt"),
        ("git rm -n --cached a.txt", "git rm --cached -n src/main.py"),
        ("python -m pytest -q", "python -m pytest -x tests/test_a.py"),
        ("python -m pytest", "python -m pytest -k 'a and b' --maxfail=1"),
        ("python -m unittest -v", "python -m unittest tests.test_a"),
        ("npm run build", "npm run build"),
        ("python src/main.py --a b", "python src/main.py c"),
    ],
)
def test_a_class_covers_calls_of_the_same_kind(decide: Decide, allowed: str, asked: str) -> None:
    assert class_of(decide, allowed).covers(class_of(decide, asked))


@pytest.mark.parametrize(
    ("allowed", "asked"),
    [
        ("npm install x", "npm install y"),
        ("python -c 'print(1)'", "python -c 'print(2)'"),
        ("tar -xf a.tar", "tar -xf b.tar"),
        ("git push --force", "git push"),
        ("find . -delete", "find src -delete"),
        ("git push origin main", "git push https://example.com/x.git main"),
        ("python -m json.tool a.json", "python -m json.tool a.json b.json"),
        ("git log", "git log --output=x"),
        ("git log", "git show"),
        ("git commit -m x", "git commit -m x --no-verify"),
        ("git commit -m x", "git commit -nm x"),
        ("git commit -m x", "git commit --amend"),
        ("git commit --dry-run", "git commit -m x"),
        ("git add a.txt", "git add -f a.txt"),
        ("git add -n a.txt", "git add a.txt"),
        ("git rm -n a.txt", "git rm a.txt"),
        ("git rm --cached a.txt", "git rm a.txt"),
        ("git apply --check a.patch", "git apply a.patch"),
        ("git restore --staged a.txt", "git restore a.txt"),
        ("git restore --staged a.txt", "git restore --staged --worktree a.txt"),
        ("git checkout -b x", "git checkout -- ."),
        ("git branch x", "git branch -d x"),
        ("git branch", "git branch -m x"),
        ("git notes show", "git notes remove"),
        ("git reflog", "git reflog delete x"),
        ("npm uninstall x --dry-run", "npm uninstall x"),
        ("npm version", "npm version patch"),
        ("npm pkg get name", "npm pkg set name=x"),
        ("python -m pytest", "python -m pytest --rootdir=src"),
        ("python -m pytest", "python -m pytest --basetemp=src"),
        ("python -m mypy src", "python -m mypy tests"),
        ("git push", "git push --force"),
        ("git push origin +a", "git push origin +b"),
        ("git -c a.b=c log", "git -c core.pager=x log"),
        ("npm run build", "npm run deploy"),
        ("npm run build", "npm install"),
        ("python src/main.py", "python src/other.py"),
        ("python -c 'print(1)'", "python -c 'import socket'"),
        ("python -c 'import socket'", "python -c 'import subprocess'"),
        ("python -m pytest", "python -m pytest -p x"),
        ("python -m http.server 1", "python -m http.server 2"),
        ("make test", "make install"),
        ("make test", "make test CC=./x"),
        ("node a.js", "node b.js"),
        ("tar -xf a.tar", "tar -xf a.tar --overwrite"),
        ("find . -exec cat {} ;", "find . -exec head {} ;"),
        ("ls --odd a", "ls --odd b"),
        ("ls --odd=1 a", "ls --odd=2 a"),
        ("python x.py /api/a", "python x.py /api/b"),
        ("git clone odd://a", "git clone odd://b"),
        ("git foo a", "git foo b"),
        ("pwd a", "pwd b"),
    ],
)
def test_a_class_never_covers_more_risk_or_what_was_not_seen(decide: Decide, allowed: str, asked: str) -> None:
    assert not class_of(decide, allowed).covers(class_of(decide, asked))


def test_a_class_does_not_cover_the_network_where_it_was_not_needed() -> None:
    without = CallClass(label="x", risk=Risk.HIGH)
    assert not without.covers(CallClass(label="x", risk=Risk.HIGH, network=True))
    assert CallClass(label="x", risk=Risk.HIGH, network=True).covers(without)
    assert not CallClass(label="x", risk=Risk.LOW).covers(without)


def test_a_class_survives_being_stored_as_text(decide: Decide) -> None:
    found = class_of(decide, "git -c a.b=c commit -m 'x y'")
    assert CallClass.from_text(found.to_text()) == found


def test_how_a_class_is_stored_does_not_change() -> None:
    stored = '{"label":"x","risk":%d,"options":[],"exact":[],"tamed":[],"network":false}'
    for number, risk in enumerate((Risk.LOW, Risk.MEDIUM, Risk.HIGH), start=1):
        assert CallClass(label="x", risk=risk).to_text() == stored % number
