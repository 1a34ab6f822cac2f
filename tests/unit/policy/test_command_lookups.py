"""What agents look up all day stays LOW, and ordinary work gets the risk it should."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from client_agent.policy.decision import Decision, Risk, Verdict

Decide = Callable[..., Decision]

LOOK_UPS = r"""
ls
ls -la
ls -lah src
ls src tests
ls -a .
ls -1 *.py
ls -R src
ls -ltr
ls -d */
ls --group-directories-first -la
ls -l --time-style=long-iso src
ls --color=never --ignore=*.pyc
ls inner
cat README.md
cat -n src/main.py
cat a.txt README.md
cat -A a.txt
cat -- a.txt
cat missing.txt
head a.txt
head -5 a.txt
head -n5 a.txt
head -n 50 src/main.py
head -n -3 a.txt
head -c 100 a.txt
head --lines=5 README.md
head -qn 3 a.txt README.md
tail a.txt
tail -20 a.txt
tail -n 100 a.txt
tail -n +10 a.txt
tail -c+0 a.txt
tail --lines=3 a.txt
wc -l src/main.py
wc -lw a.txt README.md
wc a.txt
grep foo a.txt
grep -i error a.txt
grep -rn foo .
grep -rn "foo bar" src --include=*.py
grep -rnE "(foo|bar)" --include="*.{ts,tsx}" src/
grep -E 'a|b' -A3 -B3 a.txt
grep -nA 5 foo a.txt
grep -c '' a.txt
grep -v '^#' a.txt
grep -rl TODO src tests
grep -q x a.txt
grep -rnw . -e pattern
grep -r --exclude-dir=node_modules --exclude-dir .git foo .
grep -oP '\d+' a.txt
grep -F '$HOME/.ssh' README.md
grep -rn "/etc/passwd" src
grep -e '-x' a.txt
grep -- -x a.txt
grep -f a.txt README.md
grep -m1 -h foo a.txt /dev/null
find
find . -name '*.py'
find . -name '*.py' -type f -not -path './node_modules/*'
find . -maxdepth 2 -type d
find . -type f -empty
find src ( -name a -o -name b ) -print
find . -path ./node_modules -prune -o -name '*.ts' -print
find . -newer README.md -size +1M
find . -mtime -1 -print0
find . -type f -printf '%p %s\n'
find . -iname '*test*' ! -name '*.pyc'
find src tests -regex '.*\.py$' -ls
find . -regextype posix-extended -regex '.*(a|b)'
find -H . -samefile a.txt
echo hello
echo -n 'a; rm -rf / && $(id) | x > y'
date
date +%F
date '+%Y-%m-%d %H:%M'
date -u
date -Iseconds
date -d tomorrow
date -d '2 weeks ago' +%s
date -r README.md
pwd
pwd -P
whoami
"""


@pytest.mark.parametrize("line", LOOK_UPS.split("\n")[1:-1])
def test_an_ordinary_look_up_runs_without_a_question(decide: Decide, line: str) -> None:
    decision = decide(*shlex.split(line))
    assert (decision.verdict, decision.risk) == (Verdict.RUN, Risk.LOW), decision.reasons
    assert decision.read_only
    assert not decision.network


@pytest.mark.parametrize(
    ("line", "risk"),
    [
        ("git show HEAD", Risk.MEDIUM),
        ("git add README.md", Risk.MEDIUM),
        ("git add -A", Risk.MEDIUM),
        ("git commit -am 'Fix ../x and /etc/y'", Risk.MEDIUM),
        ("git diff --stat HEAD~2..HEAD", Risk.MEDIUM),
        ("git log --oneline --graph --all -20", Risk.MEDIUM),
        ("git log origin/main...HEAD -- src", Risk.MEDIUM),
        ("git checkout -b feature/x", Risk.MEDIUM),
        ("npm run build", Risk.MEDIUM),
        ("npm test", Risk.MEDIUM),
        ("npm install --save-dev @types/node@20", Risk.MEDIUM),
        ("python src/main.py --verbose", Risk.MEDIUM),
        ("python3 -m pytest -q tests", Risk.MEDIUM),
        ('python -c \'import re; print(re.compile("x").split("a/b"))\'', Risk.MEDIUM),
        ("gcc --version", Risk.HIGH),
        ("make test", Risk.HIGH),
        ("node --version", Risk.HIGH),
        ("tar -tf a.tar", Risk.HIGH),
        ("tar czf out.tgz src", Risk.HIGH),
        ("zip -r out.zip src", Risk.HIGH),
        ("unzip a.zip", Risk.HIGH),
        ("locate main.py", Risk.HIGH),
    ],
)
def test_ordinary_work_is_asked_about_at_its_risk(decide: Decide, line: str, risk: Risk) -> None:
    decision = decide(*shlex.split(line))
    assert (decision.verdict, decision.risk) == (Verdict.ASK, risk), decision.reasons
    assert not decision.read_only


@pytest.mark.parametrize(
    ("line", "network"),
    [
        ("git clone https://example.org/x", True),
        ("git pull", True),
        ("git push origin main", True),
        ("npm ci", True),
        ("git commit -m x", False),
        ("npm run build", False),
        ("git remote -v", False),
        ("npm exec x", True),
    ],
)
def test_a_call_that_needs_the_network_says_so(decide: Decide, line: str, network: bool) -> None:
    decision = decide(*shlex.split(line))
    assert decision.network is network
    assert ("needs the network" in [reason.text for reason in decision.reasons]) is network


def test_absolute_paths_inside_the_workspace_are_as_good_as_relative_ones(decide: Decide, root: object) -> None:
    assert decide("cat", f"{root}/a.txt").verdict is Verdict.RUN
    assert decide("grep", "-f", f"{root}/a.txt", "README.md").verdict is Verdict.RUN
    assert decide("make", f"DESTDIR={root}/out").verdict is Verdict.ASK
