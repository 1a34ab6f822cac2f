"""The lists that decisions rest on: every member is there, by an example of what it is there for."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import msgspec
import pytest

from client_agent.config import Policy, Workspace
from client_agent.policy.commands.blacklist import find_blacklisted
from client_agent.policy.decision import CallClass, Decision, Inspect, Risk, Verdict
from client_agent.policy.files import assess_write, file_extension, refuse_extension
from client_agent.policy.paths import Protection
from client_agent.policy.presets import PRESETS
from client_agent.policy.rules import Rule, RuleBook
from client_agent.protocol.tools import WriteFile

Decide = Callable[..., Decision]

SECRETS = """
    .env .env.production .env-old .env_old .env~ prod.env .envrc x.tfstate x.tfstate.backup
    x.pem x.key x.p12 x.pfx x.jks x.keystore x.kdbx x.ppk x.asc x.gpg id_rsa id_dsa id_ecdsa id_ed25519
    .ssh .gnupg .aws .azure .kube .docker .gcloud .config/gcloud a/.config/gcloud/x .cargo/credentials.toml
    .netrc _netrc .npmrc .pypirc .git-credentials .pgpass .my.cnf .htpasswd .vault-token
    credentials.json client_secret_1.json service-account-1.json secrets.yaml secrets.yml secrets.toml
    .client-agent.toml
"""


@pytest.mark.parametrize("name", SECRETS.split())
def test_a_secret_is_protected_by_its_name(name: str) -> None:
    protection = Protection()
    assert protection.find(name) is not None
    assert protection.find(f"a/{name.upper()}/b") is not None


@pytest.mark.parametrize("name", [".env.example", ".env.sample", ".env.template", ".env.dist", "config.json"])
def test_an_example_for_people_is_no_secret(name: str) -> None:
    assert Protection().find(f"a/{name}") is None


REFUSED = """
    .exe .dll .bin .so .dylib .com .scr .msi .drv .ko .o .a .lib .pyc .pyo .pyd .class .jar .war .apk .deb .rpm .dmg
    .pkg .iso .img .so.1 .so.1.2
"""


@pytest.mark.parametrize("extension", REFUSED.split())
def test_a_file_that_is_there_to_be_loaded_or_run_is_never_written(workspace: Workspace, extension: str) -> None:
    for name in (f"x{extension}", f"a/x{extension.upper()}"):
        refusal = refuse_extension(name, workspace)
        assert refusal is not None
        assert refusal.code == "extension_refused"


def test_an_extension_is_what_follows_the_last_dot_of_the_name(workspace: Workspace) -> None:
    names = ["a.txt", "a.b.TXT", "a.txt. ", ".txt", "a", "x.txt/Makefile", "a.txt~", "a.b/c.md"]
    assert [file_extension(name) for name in names] == [".txt", ".txt", ".txt", "", "", "", ".txt~", ".md"]
    odd = Policy(refused_extensions=("~tmp", "..old"))
    strict = msgspec.structs.replace(workspace, policy=odd)
    assert [refuse_extension(name, strict) is None for name in ("x.~tmp", "x.tmp", "x.old")] == [False, True, False]


SELF_RUNNING = """
    .git/x.md .hg/x.md .svn/x.md .husky/x.md .vscode/x.md .idea/x.md .devcontainer/x.md .circleci/x.md .claude/x.md
    .cursor/x.md .cargo/x.md .github/workflows/x.yml .pre-commit-config.yaml .gitlab-ci.yml .gitattributes .gitmodules
    conftest.py sitecustomize.py .mcp.json .yarnrc.yml .pnpmfile.cjs package.json usercustomize.py setup.py noxfile.py
    dodo.py fabfile.py tasks.py
"""


@pytest.mark.parametrize("path", SELF_RUNNING.split())
def test_what_other_programs_run_by_themselves_is_high(workspace: Workspace, inspect: Inspect, path: str) -> None:
    found = assess_write(WriteFile(path=path, content=""), inspect, workspace)
    assert found.risk is Risk.HIGH
    assert found.reasons[0].code == "writes_self_running"


@pytest.mark.parametrize("path", ["git/x.md", ".github/x.md", "a/.github/workflows/x.yml", "x/git.md"])
def test_what_nothing_runs_by_itself_is_medium(workspace: Workspace, inspect: Inspect, path: str) -> None:
    assert assess_write(WriteFile(path=path, content=""), inspect, workspace).risk is Risk.MEDIUM


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("rm", "destroys data"),
        ("mkfs.ext4", "destroys data"),
        ("fsck.ext4", "destroys data"),
        ("sudo", "gets the rights of another user"),
        ("openssl", "handles keys and passwords"),
        ("apt-get", "installs software on the system"),
        ("curl", "sends and fetches over the network"),
        ("docker", "leaves or undoes the confinement"),
        ("qemu-arm", "leaves or undoes the confinement"),
        ("crontab", "runs things later or for others"),
        ("kill", "ends processes or the system"),
        ("chown", "changes who may use a file"),
        ("iptables", "changes the machine's network"),
        ("busybox", "is every program in one"),
    ],
)
def test_every_kind_of_blacklisted_program_says_what_it_does(name: str, why: str) -> None:
    spellings = (name, name.upper(), f" {name}", f"/usr/bin/{name}", f"C:\\Windows\\{name}.exe", f"a/b\\{name}.EXE")
    assert {find_blacklisted(spelled) for spelled in spellings} == {why}


@pytest.mark.parametrize("name", ["rm.py", "farm", "fsck.d/x", "rmx", "exe", ""])
def test_a_name_that_only_resembles_one_is_not_blacklisted(name: str) -> None:
    assert find_blacklisted(name) is None


@pytest.mark.parametrize("scheme", ["https", "http", "ssh", "git", "git+ssh", "ssh+git", "ftp", "ftps", "HTTPS"])
def test_a_scheme_that_git_speaks_itself_needs_no_helper(decide: Decide, scheme: str) -> None:
    assert decide("git", "clone", f"{scheme}://example.com/x").risk is Risk.MEDIUM


SYSTEM = """
    bin boot dev etc home lib lib64 media mnt nix opt proc root run sbin snap srv sys tmp usr var
    Applications Library System Users Volumes private
"""


@pytest.mark.parametrize("top", SYSTEM.split())
def test_a_place_of_the_system_is_refused_wherever_it_stands(decide: Decide, top: str) -> None:
    assert decide("make", f"X=/{top}/x").verdict is Verdict.REFUSE
    assert decide("make", f"X=//{top}").verdict is Verdict.REFUSE
    assert decide("make", f"X=/{top}-x").verdict is Verdict.ASK


def test_the_codes_that_make_what_may_be_a_path_refused(decide: Decide) -> None:
    assert decide("make", "X=..").code == "path_outside"
    assert decide("make", "X=.env").code == "path_protected"
    assert decide("make", *["a/b"] * 1100).code == "too_many_paths"
    assert decide("make", "X=" + "y" * 300).verdict is Verdict.ASK


def book(name: str) -> RuleBook:
    preset = next(preset for preset in PRESETS if preset.name == name)
    return RuleBook(
        Rule(id=str(number), created_at=0, updated_at=0, **msgspec.structs.asdict(draft))
        for number, draft in enumerate(preset.rules)
    )


READ_ONLY_GIT = """
    git --version|git status|git status -s|git log -3|git show HEAD|git diff|git blame a.txt|git grep x|git shortlog -s
    git describe --tags|git rev-parse HEAD|git rev-list HEAD|git ls-files|git ls-tree HEAD|git show-ref
    git merge-base a b|git branch|git branch -a|git branch -r|git branch -v|git branch -vv|git branch --list x
    git branch --show-current
    git tag|git tag --list v*|git tag -l v*|git remote|git remote -v|git stash list|git reflog|git config --list
    git config --get user.name
"""
TESTS = """
    npm test|npm test x|npm run test|npm run test:unit|python -m pytest -q|python3 -m pytest -q|python -m unittest -v
    python3 -m unittest -v
"""


def lines(text: str) -> list[str]:
    return [line for row in text.strip().splitlines() for line in row.strip().split("|")]


@pytest.mark.parametrize(
    ("preset", "line"),
    [*(("read-only-git", line) for line in lines(READ_ONLY_GIT)), *(("tests", line) for line in lines(TESTS))],
)
def test_every_rule_of_a_preset_lets_its_command_through(decide: Decide, preset: str, line: str) -> None:
    decision = decide(*shlex.split(line), rules=book(preset))
    assert (decision.verdict, decision.code) == (Verdict.RUN, "rule_approves"), decision.reasons


def test_the_presets_stand_in_this_order() -> None:
    ranks = {preset.name: {draft.priority for draft in preset.rules} for preset in PRESETS}
    assert ranks == {
        "read-only-git": {50},
        "tests": {50},
        "write-text": {50},
        "look-ups": {-50},
        "ask-everything": {-100},
    }
    assert {preset.name: {draft.note for draft in preset.rules} for preset in PRESETS} == {
        name: {name} for name in ranks
    }
    scopes = {preset.name: {(draft.server_id, draft.tool_name) for draft in preset.rules} for preset in PRESETS}
    assert scopes["read-only-git"] == scopes["tests"] == {("shell", "execute_command")}
    assert scopes["write-text"] == {("filesystem", "write_file")}


def test_a_class_needs_the_same_words_and_no_more() -> None:
    found = CallClass(label="x", risk=Risk.MEDIUM, options=("-a", "-b"), exact=("y",))
    assert found.covers(CallClass(label="x", risk=Risk.LOW, options=("-b",), exact=("y",)))
    assert not found.covers(CallClass(label="x", risk=Risk.LOW, exact=("z",)))
    assert not found.covers(CallClass(label="x", risk=Risk.LOW))
    assert CallClass(label="x", risk=Risk.LOW) == CallClass(
        label="x", risk=Risk.LOW, options=(), exact=(), network=False
    )
