"""What becomes of a user's table when it is loaded, in full."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from client_agent.config import Policy, ProgramTable
from client_agent.errors import ConfigError
from client_agent.policy.commands import load_programs
from client_agent.policy.commands.loading import inspect_example
from client_agent.policy.commands.program import Program
from client_agent.policy.commands.tables import builtin_programs, read_tables
from client_agent.policy.decision import Risk


def load(**programs: str) -> dict[str, Program]:
    tables = {name: msgspec.convert(tomllib.loads(text), ProgramTable) for name, text in programs.items()}
    loaded = load_programs(Policy(programs=tables))
    return {name: program for name in loaded.names if (program := loaded.find(name))}


def test_without_a_table_of_the_users_the_built_in_programs_are_taken_as_they_are() -> None:
    assert load_programs(Policy()) is builtin_programs()


def test_every_example_that_is_judged_otherwise_is_told_on_a_line_of_its_own() -> None:
    with pytest.raises(ConfigError) as caught:
        load(
            jot='risk = "LOW"\ndoes = "jots"\noperands = []\nexamples.low = ["jot x"]',
            jut='risk = "LOW"\ndoes = "juts"\nexamples.high = ["jut /etc/x"]\nexamples.low = ["jut"]',
        )
    assert caught.value.message.splitlines() == [
        "policy.programs.jot.examples.low: 'jot x' is HIGH: 'jot' jots (LOW); 'jot' takes no operand 'x' that is known",
        "policy.programs.jut.examples.high: 'jut /etc/x' is refused: '/etc/x': the path leads outside the workspace",
    ]


def test_an_example_that_is_refused_is_not_low() -> None:
    load(jot='risk = "LOW"\nexamples.not_low = ["jot /etc/x", "jot --odd"]')
    with pytest.raises(ConfigError, match="is refused"):
        load(jot='risk = "LOW"\nexamples.medium = ["jot /etc/x"]')


def test_an_example_is_refused_for_what_its_text_says() -> None:
    refusals = [inspect_example(path).refusal for path in ("", "a\nb", "../a\nb", "..", "/x", ".env", "x")]
    assert [refusal and refusal.code for refusal in refusals] == [
        "path_empty",
        "path_control_character",
        "path_control_character",
        "path_outside",
        "path_outside",
        "path_protected",
        None,
    ]


def test_a_sub_command_has_from_its_program_what_its_table_leaves_out() -> None:
    text = 'does = "jots"\nrisk = "MEDIUM"\npublic = ["/usr/share"]\nunknown_sub = "who knows"\noperands = ["sub"]\n'
    jot = load(jot=text + '[sub.a]\n[sub.b]\ndoes = "bees"\nrisk = "LOW"\npublic = ["/usr/lib"]')["jot"]
    same, other = jot.sub["a"], jot.sub["b"]
    assert (same.does, same.risk, same.public) == ("jots", Risk.MEDIUM, ("/usr/share",))
    assert (other.does, other.risk, other.public) == ("bees", Risk.LOW, ("/usr/lib",))
    assert jot.unknown_sub == "who knows"
    assert load(jot="")["jot"].does == "does what only its user knows"


@pytest.mark.parametrize("key", ["style", "operands", "first_given_by", "public"])
def test_how_a_built_in_program_is_read_cannot_be_changed(key: str) -> None:
    values = {"style": '"gnu"', "operands": '["text"]', "first_given_by": '"-x"', "public": '["/etc"]'}
    with pytest.raises(ConfigError, match=f"'cat' is built in: '{key}' cannot be changed"):
        load(cat=f"{key} = {values[key]}")


def test_the_network_can_be_added_to_what_is_built_in_and_not_taken_away() -> None:
    programs = load(cat="network = true", git="[sub.fetch]\nnetwork = false\n[sub.log]\nnetwork = true")
    assert programs["cat"].network
    assert programs["git"].sub["fetch"].network
    assert programs["git"].sub["log"].network
    assert not programs["git"].network


def test_an_option_named_twice_is_as_strict_as_either_says() -> None:
    programs = load(
        git='[sub.clone]\nraises = [{ options = "-u --depth", takes = "text", refuse = true, why = "mine" }]\n'
        '[sub.remote.sub.add]\noptions = { flag = "-f" }'
    )
    options = programs["git"].sub["clone"].options
    assert (options["--depth"].refuse, options["--depth"].why) == (True, "mine")
    assert options["-u"].refuse
    assert options["-u"].why not in ("", "mine")
    assert programs["git"].sub["remote"].sub["add"].options["-f"].network


def test_what_keeps_a_command_from_doing_more_still_does_where_a_user_names_it_too() -> None:
    for more in ('options = { flag = "-n" }', 'tames = "-n"'):
        assert load(git=f"[sub.add]\n{more}")["git"].sub["add"].options["-n"].tames


def test_tables_are_read_by_name_and_what_is_no_table_is_passed_over(tmp_path: Path) -> None:
    for name in ("b.toml", "a.toml", "c.toml~", "README"):
        (tmp_path / name).write_text(f'does = "{name}"\naliases = ["{name[0]}2"]', encoding="utf-8")
    tables = read_tables(tmp_path)
    assert [(name, table.does) for name, table in tables.items()] == [
        ("a", "a.toml"),
        ("a2", "a.toml"),
        ("b", "b.toml"),
        ("b2", "b.toml"),
    ]
