"""Commands that must not run unasked, by the kind of trick."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from client_agent.policy.decision import Decision, Risk, Verdict

Decide = Callable[..., Decision]

READERS = [
    "cat",
    "head",
    "tail",
    "wc",
    "ls",
    "find",
    "grep x",
    "grep -e x",
    "head -n 5",
    "tail -c+0",
    "cat -n --",
    "ls -ld",
]


HIDING_PLACES = r"""
grep -f {o} a.txt
grep -f{o} a.txt
grep -nf {o} a.txt
grep -nf{o} a.txt
grep --file={o} a.txt
grep --file {o} a.txt
grep --fil={o} a.txt
grep --exclude-from={o} x .
grep a.txt -e x {o}
date -f {o}
date -uf {o}
date -uf{o}
date --file={o}
date --fi={o}
date -r {o}
wc --files0-from={o}
wc --files0-from {o}
wc --files={o}
find . -newer {o}
find . -samefile {o}
find . -fprintf {o} x
find . -fls {o}
find . -newermm {o}
find . -files0-from {o}
find -D tree {o}
ls --unknown={o}
cat -x={o}
head --option={o}
tail -f {o}
tail --follow=name {o}
tar -cf {o} .
tar cf {o} .
tar -czf{o} .
tar --file={o} -c .
tar -xf a.tar -C {d}
tar -xf a.tar -C{d}
tar -cf a.tar -T {o}
tar -cf a.tar --directory={d} x
zip {o} a.txt
zip a.zip {o}
zip -b {d} a.zip a.txt
unzip a.zip -d {d}
unzip -qd{d} a.zip
make -C {d}
make -f {o}
make -f{o}
make DESTDIR={d}
gcc -I{d} a.c
gcc -B{d} a.c
gcc a.c -o {o}
gcc @{o}
gcc -Wp,-MD,{o} a.c
gcc -include {o} a.c
gcc -Wl,-T,{o} a.c
node {o}
node -r {o} x.js
node --require={o} x.js
node --env-file={o}
node --import file://{o} x.js
python {o}
python3 x.py {o}
python3 x.py --in={o}
python -m json.tool {o}
python -X pycache_prefix={d} x.py
npm --prefix {d} i
npm -C {d} i
npm --userconfig={o} i
npm install {d}
npm install file:{d}
git -C {d} status
git --git-dir={d} log
git --git-dir {d} log
git --work-tree={d} diff
git add {o}
git diff /dev/null {o}
git diff --no-index a.txt {o}
git clone {d}
git clone file://{d}
git clone . {d}
git init {d}
git init --template={d}
git config -f {o} a.b
git apply --directory={d} x
git log --output={o}
git -c include.path={o} status
git commit -F {o}
git hash-object -w {o}
git worktree add {d}
git mv a.txt {d}
git archive -o {o} HEAD
git blame --contents {o} a.txt
git submodule add file://{d}
git grep -f {o}
locate -d {o} x
locate --database={o} x
"""

NOT_LOOK_UPS = r"""
find . -exec cat {} ;
find . -execdir ls {} +
find . -ok cat {} ;
find . -okdir cat {} ;
find . -delete
find . -fprint out.txt
find . -fprint0 out.txt
find . -fprintf out.txt x
find . -fls out.txt
find -L .
find . -follow
find . -files0-from a.txt
find . -exec
find . -exec cat
find . - x
find . -exec grep -l x {} + -delete
find . -Delete
find . --delete
find . -name x -executable-x
ls -L
ls -laL
ls --dereference
ls --deref
grep -R x .
grep -rR x .
grep --dereference-recursive x .
tail -f a.txt
tail -F a.txt
tail -qf a.txt
tail -fn 3 a.txt
tail --follow a.txt
tail --retry a.txt
tail --pid=1 -f a.txt
tail --pid 1 a.txt
tail -s 1 a.txt
tail -5f a.txt
tail --foll a.txt
date -s now
date -us now
date --set=now
date --set now
date --se now
date 01010000
date -u 0101
date +%F 0101
date -- 0101
wc --files0-from=a.txt
wc --files0-from=-
wc --files0=a.txt
cat fifo
head -n 1 fifo
pwd x
whoami x
whoami -x
ls -y
cat --numb a.txt
head -n
head --lines
grep --include
ls --all=x
cat -n=x
head -５ a.txt
head -5x a.txt
grep -f
ls ---all
"""

FAR_REACHING = r"""
git -c core.pager=./x log
git --config-env=core.pager=X log
git clone -c core.sshCommand=x https://example.org/x
git -p log
git log --ext-diff
git diff --textconv
git grep -O x
git rebase -x ./x main
git rebase -i main
git config core.hooksPath x
git config --global a.b c
git config --unset a.b
git config -e
git lg
git st
git push --force
git push -f
git push --force-with-lease
git push origin +main
git push origin :main
git push --mirror
git push -d origin x
git clean -fdx
git reset --hard
git checkout -f
git branch -D x
git tag -d x
git stash drop
git stash clear
git filter-branch --tree-filter x
git gc
git update-ref a b
git submodule foreach ls
git bisect run ls
git difftool
git mergetool
git send-email x
git daemon
git help log
git log --help
git commit -S
git tag -s x
git log --show-signature
git fetch --upload x
git clone transport://x
git remote add -f o https://example.org
git --bare log
git --namespace=x log
npm exec x
npm x y
npm create y
npm publish
npm publish --dry-run
npm link
npm login
npm config set a b
npm i -g x
npm run x --script-shell=./x
npm i --registry=http://example.org
npm i --ignore-script=false
npm explore x -- ls
npm edit x
npm insta
npm --node-options=--inspect run x
npm token list
npm init x
python -m http.server
python -m pdb x.py
python -m pip download x
python -m timeitt x
python -Q x.py
python x.py /api/users
python x.py ~/notes
python -m idlelib
python -mhttp.server
python -Bm http.server
"""

ESCAPES = r"""
git clone ext::id
git fetch ext::id
git pull ext::id
git push ext::id
git ls-remote fd::3
git remote add o ext::id
git remote set-url o ext::id
git --exec-path=x log
git --exec-path=x
git fetch --upload-pack=id
git clone -u id .
git push --receive-pack=id
git ls-remote --exec=id .
git push --exec id
git clone ssh://-oProxyCommand=id/x
git apply --unsafe-paths x
git archive --remote=x
git show HEAD:.env
git push origin HEAD:/etc/x
git log -p -- .env
git bisect run rm x
git bisect run /bin/sh
tar -tf host:a.tar
tar -xf user@host:a.tar
tar cf host:/x .
tar -xf a.tar --to-command=id
tar -cf h:a --rsh-command=id .
zip a.zip a.txt -T -TT id
zip -T --unzip-command=id a.zip
unzip -: a.zip
find . -exec rm {} ;
find . -exec sh -c id ;
find . -exec /bin/cat {} ;
find . -exec env ls ;
find . -exec find . -exec rm {} ; ;
find . -exec cat /etc/passwd ;
zip a.zip .env
tar cf a.tar .ssh
node --env-file=.env x.js
python .env
gcc -x c .env
"""


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "{outside}/secret.txt",
        "../outside/secret.txt",
        "src/../../outside",
        "{ws}/../outside",
        "{ws}-evil",
        "link",
        "link/secret.txt",
        "chain",
        "src/relative_link/secret.txt",
        "inner/relative_link",
        "/",
        "..",
        "/dev/zero",
        ".env",
        "./.env",
        "src/../.env",
        "{ws}/.env",
        "x/id_rsa",
        ".ENV",
        "/proc/self/environ",
        "//etc/passwd",
        "a\nb",
    ],
)
def test_a_path_outside_or_protected_is_refused(decide: Decide, place: Path, reader: str, path: str) -> None:
    path = path.format(outside=place / "outside", ws=place / "ws")
    decision = decide(*shlex.split(reader), path)
    assert decision.verdict is Verdict.REFUSE
    assert decision.risk is Risk.HIGH
    assert decision.call_class is None


@pytest.mark.parametrize(
    "line",
    HIDING_PLACES.splitlines()[1:],
)
@pytest.mark.parametrize("kind", ["absolute", "climbing", "through a link"])
def test_a_path_outside_is_refused_wherever_it_hides(decide: Decide, place: Path, line: str, kind: str) -> None:
    directory = {"absolute": str(place / "outside"), "climbing": "../outside", "through a link": "link"}[kind]
    if "file://" in line:  # such an address is always absolute
        directory = str(place / "outside")
    argv = [word.replace("{o}", f"{directory}/secret.txt").replace("{d}", directory) for word in shlex.split(line)]
    assert decide(*argv).verdict is Verdict.REFUSE


@pytest.mark.parametrize(
    "line",
    NOT_LOOK_UPS.splitlines()[1:],
)
def test_an_option_that_does_more_or_is_not_understood_is_asked_about(decide: Decide, line: str) -> None:
    decision = decide(*shlex.split(line))
    assert decision.verdict is Verdict.ASK, decision.reasons
    assert decision.risk > Risk.LOW
    assert not decision.read_only


@pytest.mark.parametrize(
    "line",
    FAR_REACHING.splitlines()[1:],
)
def test_what_runs_programs_rewrites_or_reaches_far_is_high(decide: Decide, line: str) -> None:
    decision = decide(*shlex.split(line))
    assert (decision.verdict, decision.risk) == (Verdict.ASK, Risk.HIGH), decision.reasons


@pytest.mark.parametrize(
    "line",
    ESCAPES.splitlines()[1:],
)
def test_what_only_serves_to_escape_is_refused(decide: Decide, line: str) -> None:
    assert decide(*shlex.split(line)).verdict is Verdict.REFUSE


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "-ls",
        "LS",
        "Ls",
        "ls ",
        " ls",
        "ls\n",
        "./ls",
        "/bin/ls",
        "bin/ls",
        "ls;id",
        "ls\x00",
        "lѕ",
        "ｌｓ",
        "ls.exe",
        "python3.11",
        "sh",
        "bash",
        "env",
        "xargs",
        "timeout",
        "nice",
        ".",
        "command",
        "busybox",
        "sudo",
        "rm",
        "l" * 4096,
    ],
)
def test_a_program_is_an_exact_name_on_the_list(decide: Decide, name: str) -> None:
    decision = decide(name, "x")
    assert decision.verdict is Verdict.REFUSE
    assert decision.code in ("command_not_allowed", "command_blacklisted", "argument_nul")


def test_a_refusal_names_the_nearest_allowed_program(decide: Decide) -> None:
    assert "did you mean 'grep'?" in decide("gerp", "x").reasons[0].text
    assert "did you mean" not in decide("zzzzzz").reasons[0].text


def test_a_blacklisted_program_is_refused_with_what_it_does(decide: Decide) -> None:
    decision = decide("/usr/bin/sudo", "ls")
    assert (decision.code, "gets the rights of another user" in decision.reasons[0].text) == (
        "command_blacklisted",
        True,
    )


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        ("a\x00b", "argument_nul"),
        ("x" * 131072, "argument_too_long"),
        ("é" * 70000, "argument_too_long"),
        ("\ud800", "argument_not_text"),
    ],
)
def test_an_argument_that_no_process_can_be_given_is_refused(decide: Decide, argument: str, code: str) -> None:
    assert decide("echo", argument).code in (code, "invalid_parameters")


def test_the_longest_argument_that_a_process_can_be_given_is_let_through(decide: Decide) -> None:
    assert decide("echo", "x" * 131_071).verdict is Verdict.RUN


def test_arguments_that_are_too_long_together_are_refused(decide: Decide) -> None:
    assert decide("echo", *["x" * 100_000] * 11).code == "argument_too_long"
    assert decide("echo", *["x" * 100_000] * 9).verdict is Verdict.RUN


@pytest.mark.parametrize(
    "text", ["$(id)", "`id`", "a||b", "; rm -rf /", "> x", "$HOME", "*", "~", "\n", "--help", "-x"]
)
def test_shell_syntax_is_plain_text(decide: Decide, text: str) -> None:
    assert decide("echo", text).verdict is Verdict.RUN


def test_an_argument_of_very_many_parts_is_still_looked_at(decide: Decide) -> None:
    assert decide("make", ",".join(["x"] * 100 + ["/etc/passwd"])).verdict is Verdict.REFUSE
    assert decide("make", ",".join(["x"] * 100)).verdict is Verdict.ASK
    assert decide("make", ",".join([".ssh"] + ["x"] * 15)).verdict is Verdict.REFUSE
    assert decide("make", ",".join([".ssh"] + ["x"] * 16)).verdict is Verdict.ASK


def test_more_paths_than_can_be_looked_at_are_refused(decide: Decide) -> None:
    assert decide("cat", *["a.txt"] * 1000).verdict is Verdict.RUN
    assert decide("cat", *["a.txt"] * 1001).code == "too_many_paths"
    assert decide("make", *["a.txt"] * 1001).code == "too_many_paths"


def test_directories_of_the_system_that_a_table_names_may_be_pointed_at(decide: Decide) -> None:
    assert decide("gcc", "-I/usr/include/x", "-L", "/usr/lib", "a.c").verdict is Verdict.ASK
    assert decide("gcc", "-I/usr/include/../../etc", "a.c").verdict is Verdict.REFUSE
    assert decide("gcc", "-I/usr/includes", "a.c").verdict is Verdict.REFUSE
    assert decide("gcc", "-I/usr/include/..", "a.c").verdict is Verdict.REFUSE


def test_addresses_are_no_paths(decide: Decide) -> None:
    assert decide("npm", "install", "https://example.org/etc/x.tgz").risk is Risk.MEDIUM
    assert decide("npm", "install", "git+ssh://git@example.org/home/x.git").risk is Risk.MEDIUM


def test_a_git_remote_may_be_an_address_a_host_a_name_or_a_path_inside(decide: Decide) -> None:
    for remote in ("https://example.org/x", "git@example.org:a/b.git", "origin", "./src", "file://{ws}/src"):
        assert decide("git", "fetch", remote.replace("file://{ws}/src", "src")).risk is Risk.MEDIUM


def test_an_address_of_a_file_is_the_path_in_it(decide: Decide, root: Path) -> None:
    for argv in (["npm", "install", f"file://{root}/src"], ["git", "clone", f"file://{root}/src", "x"]):
        assert decide(*argv).verdict is Verdict.ASK, argv
    assert decide("git", "clone", "file:///etc/x", "y").code == "path_outside"


def test_every_reason_is_told(decide: Decide) -> None:
    reasons = [reason.text for reason in decide("git", "-c", "a=b", "push", "--force", "--odd").reasons]
    assert len(reasons) == 5
    assert [
        word for word in ("'-c'", "'--force'", "'--odd'", "network") if not any(word in text for text in reasons)
    ] == []


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.0.0.1:8080", "localhost", "LOCALHOST.", "x.localhost", "printer.local", "[::1]:80",
        "10.0.0.1", "metadata.google.internal",
        "192.168.1.1", "169.254.169.254", "0.0.0.0", "127.1", "2130706433", "0x7f000001", "u:p@127.0.0.1", "",
    ],
)  # fmt: skip
def test_the_network_does_not_mean_this_machine(decide: Decide, host: str) -> None:
    for argv in (["git", "clone", f"http://{host}/x"], ["npm", "install", f"http://{host}/x.tgz"]):
        decision = decide(*argv)
        assert decision.verdict is Verdict.REFUSE, argv
        assert f"'http://{host}/x" in decision.reasons[0].text


@pytest.mark.parametrize("remote", ["localhost:x", "git@127.0.0.1:x.git"])
def test_nor_in_the_short_spelling_of_a_remote(decide: Decide, remote: str) -> None:
    assert decide("git", "clone", remote).verdict is Verdict.REFUSE
    assert decide("git", "clone", "git@example.com:x.git").verdict is Verdict.ASK


@pytest.mark.parametrize("host", ["example.com", "8.8.8.8", "git.example.org:8443", "user@example.com"])
def test_the_network_beyond_is_asked_about(decide: Decide, host: str) -> None:
    found = decide("git", "clone", f"https://{host}/x")
    assert (found.verdict, found.network) == (Verdict.ASK, True)
