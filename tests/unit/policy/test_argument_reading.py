"""How the arguments of a command are read, tried on tables made for it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from client_agent.config import Policy, ProgramTable
from client_agent.policy.decision import Decision, Risk, Verdict

Decide = Callable[..., Decision]
Table = Callable[[str], Decide]

LOW = (Verdict.RUN, Risk.LOW)
MEDIUM = (Verdict.ASK, Risk.MEDIUM)
HIGH = (Verdict.ASK, Risk.HIGH)


@pytest.fixture
def with_table(decide_with: Callable[[Policy], Decide]) -> Table:
    """Decides commands of a program `jot`, which is LOW unless its table says otherwise."""

    def build(text: str) -> Decide:
        table = msgspec.convert({"risk": "LOW", **tomllib.loads(text)}, ProgramTable)
        decide = decide_with(Policy(programs={"jot": table}))
        return lambda *args: decide("jot", *args)

    return build


def judged(decision: Decision) -> tuple[Verdict, Risk]:
    return decision.verdict, decision.risk


def codes(decision: Decision) -> list[str]:
    return [reason.code for reason in decision.reasons]


def test_a_single_dash_is_an_operand(decide: Decide, with_table: Table) -> None:
    assert decide("grep", "-", "../outside/secret.txt").verdict is Verdict.REFUSE
    assert decide("grep", "-", "a.txt").verdict is Verdict.RUN
    scanned = with_table('style = "scan"\noperands = ["text", "path"]')
    assert scanned("-", "link").verdict is Verdict.REFUSE
    assert judged(scanned("-", "link/..")) != LOW


def test_behind_two_dashes_everything_is_an_operand(decide: Decide) -> None:
    assert judged(decide("cat", "--", "-x", "--odd")) == LOW
    assert decide("cat", "--", "-x", "/etc/passwd").verdict is Verdict.REFUSE


def test_a_number_behind_a_dash_is_an_option_only_where_the_table_says_so(decide: Decide) -> None:
    assert judged(decide("head", "-5", "a.txt")) == LOW
    assert judged(decide("ls", "-5")) == HIGH
    assert judged(decide("head", "-٥", "a.txt")) == HIGH


def test_a_number_may_end_a_cluster_of_letters_but_not_stand_among_them(decide: Decide) -> None:
    assert judged(decide("grep", "-n5", "x", "a.txt")) == LOW
    assert judged(decide("grep", "-5n", "x", "a.txt")) == HIGH
    assert judged(decide("head", "-5c", "a.txt")) == HIGH  # head reads it as a number of bytes, and then a path
    assert judged(decide("ls", "-l5")) == HIGH
    assert judged(decide("grep", "-n٥", "x", "a.txt")) == HIGH


def test_an_option_whose_value_is_optional_may_have_none(with_table: Table) -> None:
    decide = with_table('operands = []\noptions = { "any?" = "--colour" }')
    assert judged(decide("--colour")) == LOW
    assert judged(decide("--colour=auto")) == LOW
    assert decide("--colour=/etc/passwd").verdict is Verdict.REFUSE


def test_an_option_given_a_value_that_it_does_not_take_is_not_understood(with_table: Table) -> None:
    decide = with_table('operands = []\noptions = { flag = "--quiet -q", text = "--name -n" }')
    assert judged(decide("--quiet")) == LOW
    assert codes(decide("--quiet=yes")) == ["command_low", "option_unknown"]
    assert judged(decide("--name=x")) == LOW
    assert judged(decide("--name", "x")) == LOW
    assert judged(decide("-qn", "x")) == judged(decide("-qnx")) == LOW
    assert codes(decide("--name")) == codes(decide("-qn")) == ["command_low", "option_unknown"]


def test_an_option_that_needs_the_network_says_so(with_table: Table) -> None:
    decide = with_table(
        'operands = []\nraises = [{ options = "-f", risk = "MEDIUM", network = true, why = "x" }]\noptions.flag = "-q"'
    )
    assert decide("-f").network
    assert decide("-f", "-q").network
    assert not decide("-q").network


def test_what_an_option_stands_for_is_not_expected_as_an_operand(with_table: Table) -> None:
    decide = with_table('operands = ["text", "path"]\noptions = { text = "-e" }\nfirst_given_by = "-e"')
    assert judged(decide("link", "a.txt")) == LOW
    assert judged(decide("-e", "x", "a.txt")) == LOW
    assert decide("-e", "x", "link").verdict is Verdict.REFUSE
    assert judged(decide("-e", "x", "a.txt", "b.txt")) == HIGH
    wrapping = with_table('operands = ["text", "command"]\noptions = { text = "-t" }\nfirst_given_by = "-t"')
    assert judged(wrapping("-t", "5", "ls", "src")) == LOW
    assert wrapping("-t", "5", "cat", "link").verdict is Verdict.REFUSE
    assert judged(wrapping("5", "ls", "src")) == LOW


def test_what_stands_before_a_sub_command_is_judged_too(with_table: Table) -> None:
    decide = with_table('operands = ["path", "sub"]\n[sub.show]\noperands = ["text"]')
    assert judged(decide("a.txt", "show", "x")) == LOW
    assert decide("link", "show", "x").verdict is Verdict.REFUSE
    assert judged(decide("a.txt", "show", "x", "y")) == HIGH


def test_an_option_before_a_sub_command_does_not_stand_for_its_operand(with_table: Table) -> None:
    decide = with_table(
        'operands = ["sub"]\noptions = { text = "-e" }\n[sub.find]\noperands = ["text", "path"]\nfirst_given_by = "-e"'
    )
    assert judged(decide("find", "-e", "x", "a.txt")) == LOW
    assert judged(decide("-e", "x", "find", "link", "a.txt")) == LOW


def test_an_unknown_sub_command_is_looked_through(decide: Decide) -> None:
    decision = decide("git", "foo", "-x", "y", "z")
    assert codes(decision) == ["command_high", "subcommand_unknown"]
    assert not decision.network
    assert "'git foo': " in decision.reasons[1].text
    assert len(decision.reasons[1].text) > len("'git foo': ")
    assert decide("git", "foo", "y", "/etc/passwd").verdict is Verdict.REFUSE
    assert decide("git", "foo", "-x../outside").verdict is Verdict.REFUSE


def test_directories_of_the_system_are_those_of_the_table_reached(with_table: Table) -> None:
    decide = with_table(
        'operands = ["sub"]\npublic = ["/usr/share"]\n'
        '[sub.own]\npublic = ["/usr/include"]\noperands = ["path..."]\n[sub.same]\noperands = ["path..."]'
    )
    assert judged(decide("own", "/usr/include", "/usr/include/x.h", "/dev/null")) == LOW
    assert decide("own", "/usr/share/x").verdict is Verdict.REFUSE
    assert judged(decide("same", "/usr/share/x")) == LOW
    for path in ("/usr/share/..", "/usr/share/../x", "/usr/shared", "/usr"):
        assert decide("same", path).verdict is Verdict.REFUSE, path


def test_the_network_of_a_program_is_that_of_its_sub_commands(with_table: Table) -> None:
    decide = with_table('operands = ["sub"]\nnetwork = true\n[sub.x]\noperands = []')
    assert decide("x").network


def test_a_command_of_find_ends_where_find_says(decide: Decide) -> None:
    for end in (";", "+"):
        decision = decide("find", ".", "-exec", "cat", "a.txt", end, "-name", "../x")
        assert judged(decision) == HIGH, decision.reasons
        assert decide("find", ".", "-exec", "cat", end, "link").verdict is Verdict.REFUSE
    assert (
        decide("find", ".", "-exec", "git", "clone", "-u", "x", "https://example.com/y", ";").code == "option_refused"
    )


def test_what_find_takes_as_an_operator_is_no_path_of_ours(decide: Decide) -> None:
    line = ["find", "(", "-name", "*.py", "-o", "!", "-name", "x", ")", ",", "-print"]
    assert judged(decide(*line)) == LOW


def test_of_a_program_that_is_looked_through_operands_are_of_the_kinds_its_table_names(with_table: Table) -> None:
    decide = with_table('style = "scan"\noperands = ["text", "path"]')
    assert judged(decide("link", "a.txt")) == LOW
    assert decide("x", "link").verdict is Verdict.REFUSE
    assert judged(decide("-v", "link", "a.txt")) == LOW
    assert decide("-v", "x", "-w", "link").verdict is Verdict.REFUSE
    assert decide("x", "a.txt", "/etc/passwd").verdict is Verdict.REFUSE
    assert judged(with_table('style = "scan"\noperands = ["text", "text"]')("link", "link")) == LOW


def test_a_path_may_be_attached_to_the_last_of_several_letters(with_table: Table) -> None:
    decide = with_table('style = "scan"\noperands = ["text..."]\noptions = { path = "-C", text = "-t" }')
    for option in ("-Clink", "-xClink", "-C../outside", "-xC/"):
        assert decide(option).verdict is Verdict.REFUSE, option
    for option in ("-C", "-Csrc", "-xtlink", "--xClink", "-Csrc/Clink", "--link"):
        assert decide(option).verdict is Verdict.RUN, option


def test_options_of_a_program_that_is_looked_through_raise_its_risk(with_table: Table) -> None:
    decide = with_table('style = "scan"\nraises = [{ options = "--run", why = "runs it", takes = "text" }]')
    assert judged(decide("--other=x")) == LOW
    assert codes(decide("--run=x")) == codes(decide("--run")) == ["command_low", "option_risky"]


def test_what_may_be_a_path_is_refused_only_where_it_is_certain(with_table: Table, root: Path) -> None:
    decide = with_table('operands = ["any..."]')
    for value in ("x", "a\nb", "-", "/dev/null", f"{root}/a.txt", "--link", "x=1,y", "https://example.com/../x"):
        assert judged(decide(f"{value}") if not value.startswith("-") else decide("--", value)) == LOW, value
    for value in ("~/x", "~/../../x", "/api/v1", "../a\nb", "/a\nb"):
        decision = decide(value)
        assert (judged(decision), codes(decision)[-1]) == (HIGH, "seems_outside"), value
    for value in ("link", "../x~", "x=link", "a,link", "x@link:1", "/etc/x--", "-x/etc/x--", "-x/etc/x", ".env"):
        assert (decide("--", value).verdict) is Verdict.REFUSE, value
    assert decide(f"file://{root}/a.txt").verdict is Verdict.RUN
    assert decide("file:///etc/passwd").verdict is Verdict.REFUSE
    assert decide(f"git+FILE://{root}/a.txt").verdict is Verdict.RUN
    assert decide("git+file:///etc/passwd").verdict is Verdict.REFUSE


def test_of_very_many_parts_those_that_lead_out_are_looked_at(with_table: Table) -> None:
    decide = with_table('operands = ["any..."]')
    assert decide(",".join(["x"] * 15 + ["link"])).verdict is Verdict.REFUSE
    for outside in ("../outside", "/etc"):
        assert decide(",".join(["x"] * 40 + [outside])).verdict is Verdict.REFUSE


def test_a_remote_of_git_is_told_from_a_path(decide: Decide) -> None:
    assert decide("git", "clone", "https://example.com/a::b").verdict is Verdict.ASK
    assert decide("git", "clone", "ext::sh -c x").verdict is Verdict.REFUSE
    assert decide("git", "clone", "/etc/x:y").verdict is Verdict.REFUSE
    assert decide("git", "clone", "example.com:/etc/x").verdict is Verdict.ASK
    assert decide("git", "clone", "file:///etc").verdict is Verdict.REFUSE
    assert decide("git", "clone", "git+file:///etc").verdict is Verdict.REFUSE


def test_a_module_of_the_workspace_is_no_riskier_than_a_script_of_it(decide: Decide, root: Path) -> None:
    (root / "app").mkdir(exist_ok=True)
    (root / "app/__main__.py").touch()
    (root / "src/tool").mkdir(exist_ok=True)
    (root / "src/tool/__main__.py").touch()
    for name in ("src.main", "main", "app", "tool"):
        decision = decide("python", "-m", name, "x")
        assert judged(decision) == MEDIUM, name
        assert f"'python -m {name}' runs a module of the workspace (MEDIUM)" in [r.text for r in decision.reasons]
        assert decision.call_class is not None
        assert decision.call_class.exact == ("-m", name, "x")
    (root / "id_rsa.py").touch()  # protected by its name
    for name in (
        "missing",
        "id_rsa",
        "app.missing",
        "src/main",
        "../main",
        "main.py",
        "",
        ".main",
        "src",
        "link.secret",
    ):
        assert judged(decide("python", "-m", name)) == HIGH, name
    assert judged(decide("git", "app")) == HIGH
    assert decide("python", "-m", "app", "/etc/passwd").verdict is Verdict.REFUSE


def test_a_time_zone_is_a_name_and_no_file(decide: Decide) -> None:
    for text in ('TZ="Europe/Berlin" now', "2024/01/02", "now", 'TZ="UTC" ./x', "now..", 'TZ="UTC" now'):
        assert judged(decide("date", "-d", text)) == LOW, text
        assert judged(decide("find", ".", "-newermt", text)) == LOW, text
    for text in ('TZ="/etc/x" now', 'now TZ=":/etc/x"', "TZ=../x", 'TZ="~/x"', 'TZ="Europe/../../x" now'):
        assert judged(decide("date", f"--date={text}")) == HIGH, text
        assert judged(decide("find", ".", "-newermt", text)) == HIGH, text


def test_what_tail_takes_for_an_old_option_does_not_hide_that_it_goes_on(decide: Decide, root: Path) -> None:
    for word in ("+5", "+5c", "+", "5f", "+5ff", "+xf", "a+5f"):
        assert judged(decide("tail", word, "a.txt")) == LOW, word
    for word in ("+5f", "+f", "+10lf", "+cf", "+bf"):
        decision = decide("tail", word, "a.txt")
        assert judged(decision) == MEDIUM, word
        assert [reason.code for reason in decision.reasons] == ["command_low", "goes_on"]
    assert decide("tail", "+5f", str(root.parent / "outside/secret.txt")).verdict is Verdict.REFUSE


def test_a_format_of_gits_that_has_signatures_checked_is_high(decide: Decide) -> None:
    for text in ("%H", "%an %gd", "format:%s G", "%(contents:signature)", "signed"):
        assert judged(decide("git", "log", f"--format={text}")) == MEDIUM, text
    for text in (
        "%G?",
        "x%GG",
        "%+GK",
        "%-GS",
        "% GS",
        "%(signature)",
        "%(*signature:key)",
        "signature",
        "-*signature",
    ):
        decision = decide("git", "log", f"--format={text}")
        assert judged(decision) == HIGH, text
        assert [reason.code for reason in decision.reasons] == ["command_medium", "checks_signature"]
    assert judged(decide("git", "log", "--pretty")) == MEDIUM


def test_who_writes_a_home_directory_or_an_address_for_a_path_means_another_place(decide: Decide, root: Path) -> None:
    (root / "~kept").touch()
    assert judged(decide("cat", "~kept")) == LOW
    for path in ("~", "~/x", "~user", "file:///x", "file:/x", "git+ssh://x"):
        assert judged(decide("cat", path)) == HIGH, path
    assert judged(decide("cat", "a~")) == LOW
    assert judged(decide("cat", "a:b")) == LOW


def test_where_options_are_not_told_apart_text_that_one_takes_is_no_path(decide: Decide) -> None:
    for args in ("--exclude=.env .", "--exclude .env .", "--exclude= . x"):
        assert judged(decide("tar", "-cf", "a.tar", *args.split(" "))) == HIGH, args
    for args in ("--exclude x .env", "--exclude=x .env", "--exclude= .env", "--exclud=.env ."):
        assert decide("tar", "-cf", "a.tar", *args.split(" ")).verdict is Verdict.REFUSE, args
    assert judged(decide("gcc", "-DX=/etc/x", "-D", "/etc/x", "a.c")) == HIGH
    assert decide("gcc", "-DX", "/etc/x").verdict is Verdict.REFUSE
    assert decide("gcc", "-X=/etc/x").verdict is Verdict.REFUSE


def test_where_options_are_not_told_apart_an_abbreviation_counts_as_what_it_may_stand_for(decide: Decide) -> None:
    for option in ("--to-command=id", "--to-c=id", "--to=id", "--t=id"):
        assert decide("tar", "-xf", "a.tar", option).code == "option_refused", option
    for option in ("--", "-t", "--tox=id", "---to=id"):
        assert judged(decide("tar", "-xf", "a.tar", option)) == HIGH, option


def test_a_number_can_raise_the_risk_as_any_option_can(with_table: Table) -> None:
    decide = with_table('raises = [{ options = "-#", risk = "MEDIUM", why = "counts" }]')
    assert judged(decide("-5")) == MEDIUM
    assert judged(decide()) == LOW
