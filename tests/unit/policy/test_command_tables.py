"""Program tables: the built-in ones keep their own promises, and the user's can add and tighten but not loosen."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from client_agent import config
from client_agent.config import Policy, ProgramTable
from client_agent.errors import ConfigError
from client_agent.policy.commands import load_programs
from client_agent.policy.commands.blacklist import find_blacklisted
from client_agent.policy.commands.loading import inspect_example, try_examples
from client_agent.policy.commands.tables import builtin_programs, builtin_tables, compile_table
from client_agent.policy.decision import Decision, Risk

WHITELIST = """
    grep find locate ls cat head tail wc echo date pwd whoami git npm python python3 node gcc make tar zip unzip
""".split()  # noqa: SIM905


def table(text: str) -> ProgramTable:
    return msgspec.convert(tomllib.loads(text), ProgramTable)


def policy(**programs: str) -> Policy:
    return Policy(programs={name: table(text) for name, text in programs.items()})


def test_the_built_in_programs_are_the_whitelist_and_nothing_else() -> None:
    assert sorted(builtin_programs().names) == sorted(WHITELIST)


@pytest.mark.parametrize("name", WHITELIST)
def test_a_built_in_table_judges_its_own_examples_as_it_says(name: str) -> None:
    assert list(try_examples(name, builtin_tables()[name], builtin_programs())) == []


@pytest.mark.parametrize("name", WHITELIST)
def test_a_built_in_table_has_examples_and_says_what_the_program_does(name: str) -> None:
    found = builtin_tables()[name]
    assert found.does
    assert sum(len(lines) for lines in msgspec.structs.astuple(found.examples)) >= 1


def test_no_built_in_program_is_blacklisted() -> None:
    assert [name for name in builtin_programs().names if find_blacklisted(name)] == []


@pytest.mark.parametrize(
    "name",
    [
        "rm",
        "dd",
        "mkfs",
        "mkfs.ext4",
        "sudo",
        "su",
        "ssh-keygen",
        "openssl",
        "apt",
        "apt-get",
        "yum",
        "dnf",
        "pacman",
        "curl",
        "wget",
        "doas",
        "pkexec",
        "chroot",
        "mount",
        "nsenter",
        "unshare",
        "systemctl",
        "crontab",
        "at",
        "kill",
        "RM",
        "rm.exe",
        "busybox",
        "docker",
        "qemu-aarch64",
    ],
)
def test_a_blacklisted_program_cannot_be_allowed(name: str) -> None:
    with pytest.raises(ConfigError, match=f"policy.programs.{name}: .* can never be allowed: it "):
        load_programs(policy(**{name: 'risk = "LOW"'}))


def test_a_users_program_is_judged_by_its_table(decide_with: Callable[[Policy], Callable[..., Decision]]) -> None:
    decide = decide_with(
        policy(
            cargo="""
            does = "builds Rust projects"
            risk = "MEDIUM"
            operands = ["sub"]
            [sub.check]
            operands = ["text..."]
            options = { flag = "--release -q", text = "-p --package" }
            [sub.publish]
            risk = "HIGH"
            network = true
            operands = []
            [examples]
            medium = ["cargo check --release -p core"]
            high = ["cargo publish", "cargo run", "cargo check --config x"]
            refused = ["cargo check --manifest-path=/etc/x"]
            """
        )
    )
    assert decide("cargo", "check", "-q").risk is Risk.MEDIUM
    published = decide("cargo", "publish")
    assert (published.risk, published.network) == (Risk.HIGH, True)


@pytest.mark.parametrize(
    ("expected", "line", "said"),
    [
        ("low", "jot x", "is HIGH"),
        ("not_low", "jot", "is LOW"),
        ("refused", "jot", "is LOW"),
        ("high", "jot", "is LOW"),
        ("medium", "jot /etc", "is refused"),
        ("low", "jot 'x", "is not a command line"),
    ],
)
def test_an_example_that_is_judged_otherwise_is_named_when_loaded(expected: str, line: str, said: str) -> None:
    text = f'risk = "LOW"\noperands = []\nexamples.{expected} = ["{line}"]'
    with pytest.raises(ConfigError) as caught:
        load_programs(policy(jot=text))
    assert f"policy.programs.jot.examples.{expected}: " in caught.value.message
    assert line in caught.value.message
    assert said in caught.value.message


def test_an_example_of_a_sub_command_is_checked_too() -> None:
    text = 'operands = ["sub"]\n[sub.x]\nexamples.low = ["jot x"]'
    with pytest.raises(ConfigError, match=r"policy\.programs\.jot\.sub\.x\.examples\.low"):
        load_programs(policy(jot=text))


def test_a_user_can_add_options_and_sub_commands_to_a_built_in_program() -> None:
    programs = load_programs(
        policy(
            grep='options = { flag = "--brand-new" }\nexamples.low = ["grep --brand-new x"]',
            git='[sub.absorb]\noptions = { flag = "--and-rebase" }\nexamples.medium = ["git absorb --and-rebase"]',
            npm='options = { flag = "--everywhere" }\nexamples.medium = ["npm run x --everywhere"]',
        )
    )
    git = programs.find("git")
    assert git is not None
    assert {"absorb", "status"} <= set(git.sub)


def test_a_user_cannot_make_what_is_built_in_less_risky() -> None:
    programs = load_programs(
        policy(
            git='risk = "LOW"\n[sub.status]\nrisk = "LOW"\n[sub.clone]\noptions = { text = "-u" }',
            find='options = { flag = "-delete" }',
        )
    )
    git, find = programs.find("git"), programs.find("find")
    assert git is not None
    assert find is not None
    assert (git.risk, git.sub["status"].risk, find.options["-delete"].risk) == (Risk.MEDIUM, Risk.MEDIUM, Risk.HIGH)
    assert git.sub["clone"].options["-u"].refuse


def test_a_user_can_make_what_is_built_in_riskier() -> None:
    text = 'risk = "MEDIUM"\n[[raises]]\noptions = "-r"\nwhy = "reads everything"\nnetwork = true'
    grep = load_programs(policy(grep=text)).find("grep")
    assert grep is not None
    assert (grep.risk, grep.options["-r"].risk, grep.options["-r"].network) == (Risk.MEDIUM, Risk.HIGH, True)
    assert grep.options["-r"].why == "reads everything"


@pytest.mark.parametrize("key", ['style = "literal"', 'operands = ["text..."]', 'public = ["/etc"]'])
def test_a_user_cannot_change_how_a_built_in_program_is_read(key: str) -> None:
    with pytest.raises(ConfigError, match=r"'cat' is built in: '\w+' cannot be changed"):
        load_programs(policy(cat=key))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('use = ["nowhere"]', "there is no set of options 'nowhere'"),
        ('options = { flag = "-x", text = "-x" }', "the option '-x' is named twice"),
        ('operands = ["paths"]', "found operand 'paths', expected one of"),
        ('operands = ["flag"]', "found operand 'flag'"),
        ('operands = ["text?"]', r"found operand 'text\?'"),
        ('operands = ["path...", "text"]', "only the last operand can be repeated"),
    ],
)
def test_a_table_that_cannot_be_meant_so_is_an_error(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_programs(policy(jot=text))


def test_a_set_of_options_is_shared_and_can_be_overridden() -> None:
    text = """
        operands = ["sub"]
        sets.common.options = { flag = "-q -v" }
        [sub.a]
        use = ["common"]
        raises = [{ options = "-v", why = "tells too much" }]
        [sub.b]
        use = ["common"]
        aliases = ["c"]
    """
    program = compile_table("jot", table(text))
    assert program.sub["a"].options["-v"].why == "tells too much"
    assert program.sub["c"].options["-v"].why == ""
    assert program.sub["c"].options.keys() == {"-q", "-v"}


def test_a_program_without_a_word_about_its_risk_is_high_and_its_sub_commands_as_risky_as_it() -> None:
    assert compile_table("jot", table("")).risk is Risk.HIGH
    assert compile_table("jot", table('risk = "LOW"\n[sub.x]')).sub["x"].risk is Risk.LOW


def test_programs_can_be_removed() -> None:
    programs = load_programs(Policy(remove_programs=("git", "nothing"), programs={"jot": table("")}))
    assert programs.find("git") is None
    assert programs.find("jot") is not None


def test_the_workspaces_own_file_can_remove_programs_but_not_add_any(tmp_path: Path) -> None:
    file = tmp_path / config.WORKSPACE_FILE
    file.write_text('policy.remove_programs = ["npm"]', encoding="utf-8")
    tightened = config.local_workspace(tmp_path)
    assert load_programs(tightened.policy).find("npm") is None
    file.write_text('[policy.programs.sh]\nrisk = "LOW"', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"policy\.programs: unknown key"):
        config.local_workspace(tmp_path)


def test_a_wrong_key_in_a_program_table_is_named_with_what_was_expected(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    head = f'[workspaces.w]\nroot = "{tmp_path}"\nproject_id = "p"\nserver = "https://example.org"\n'
    file.write_text(head + '[workspaces.w.policy.programs.jot]\nrisk = "TINY"\noperand = []\n', encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        config.load(file)
    assert "workspaces.w.policy.programs.jot.risk: found 'TINY', expected LOW, MEDIUM or HIGH" in caught.value.message
    assert "jot.operand: unknown key; did you mean 'operands'?" in caught.value.message


@pytest.mark.parametrize("name", ["/bin/ls", "-x", "", "a b", "лс"])
def test_the_name_of_a_program_is_a_bare_one(tmp_path: Path, name: str) -> None:
    file = tmp_path / "config.toml"
    head = f'[workspaces.w]\nroot = "{tmp_path}"\nproject_id = "p"\nserver = "https://example.org"\n'
    file.write_text(head + f'[workspaces.w.policy.programs."{name}"]\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="the bare name of a program"):
        config.load(file)


def test_examples_are_judged_as_in_a_workspace_where_nothing_is() -> None:
    assert inspect_example("a/b").refusal is None
    assert [inspect_example(path).refusal is None for path in ("/x", "../x", ".env", "")] == [False] * 4


def test_a_user_can_say_that_an_option_keeps_a_command_from_doing_more(
    decide_with: Callable[[Policy], Callable[..., Decision]],
) -> None:
    decide = decide_with(policy(git='sub.tag = { tames = "--list" }', make='tames = "-n"'))
    listing, making = decide("git", "tag", "--list").call_class, decide("git", "tag", "v1").call_class
    assert listing is not None
    assert making is not None
    assert listing.tamed == ("--list",)
    assert making.covers(listing)
    assert not listing.covers(making)
    dry = decide("make", "-n", "all").call_class
    assert dry is not None
    assert dry.tamed == ("-n",)


def test_a_user_cannot_let_a_built_in_program_run_modules() -> None:
    with pytest.raises(ConfigError, match="'modules' cannot be changed"):
        load_programs(policy(git="modules = true"))
