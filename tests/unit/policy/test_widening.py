"""What a changed configuration allows beyond the one in force: known to the field, and when in doubt it widens."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_agent import config
from client_agent.config import Approvals, Limits, Link, Policy, ProgramTable, Sandbox, Settings, Workspace
from client_agent.policy import widening
from client_agent.policy.widening import compare

ROOT = {"root": "/home/ann/src", "project_id": "p", "server": "https://a.example"}


def settings(link: Link | None = None, **changes: Any) -> Settings:
    return Settings(workspaces={"w": Workspace(**{**ROOT, **changes})}, link=link or Link())


def widened(before: Settings, after: Settings) -> list[tuple[str, str]]:
    return [(each.key.removeprefix("workspaces.w."), each.text) for each in compare(before, after).widenings]


# Each of these, read from left to right, allows more, and from right to left less.
WIDER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "limits.read_max_bytes": ({"limits": Limits(read_max_bytes=10)}, {"limits": Limits(read_max_bytes=11)}),
    "limits.calls_in_flight": ({"limits": Limits(calls_in_flight=1)}, {"limits": Limits(calls_in_flight=2)}),
    "limits.cpu_max_s": ({"limits": Limits(cpu_max_s=1)}, {"limits": Limits(cpu_max_s=2)}),
    "policy.deny": ({"policy": Policy(deny=("a", "b"))}, {"policy": Policy(deny=("b",))}),
    "policy.refused_extensions": ({"policy": Policy(refused_extensions=(".x",))}, {}),
    "policy.remove_programs": ({"policy": Policy(remove_programs=("git",))}, {}),
    "policy.programs": ({}, {"policy": Policy(programs={"cargo": ProgramTable(risk="MEDIUM")})}),
    "sandbox.mechanism": ({}, {"sandbox": Sandbox(mechanism="none")}),
    "sandbox.toolchains": ({}, {"sandbox": Sandbox(toolchains=("~/.cargo",))}),
    "approvals.medium_timeout_s": ({"approvals": Approvals(medium_timeout_s=1)}, {}),
    "approvals.high_timeout_s": ({"approvals": Approvals(high_timeout_s=1)}, {}),
    "approvals.unattended": ({"approvals": Approvals(unattended="reject")}, {}),
}
# Neither tighter nor wider: another is another.
OTHER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "root": ({}, {"root": "/home/ann"}),
    "project_id": ({}, {"project_id": "q"}),
    "server": ({}, {"server": "https://b.example"}),
}


@pytest.mark.parametrize("key", WIDER)
def test_what_allows_more_is_named_and_not_in_force(key: str) -> None:
    narrow, wide = (settings(**each) for each in WIDER[key])
    compared = compare(narrow, wide)
    assert [each.key for each in compared.widenings] == [f"workspaces.w.{key}"]
    assert compared.in_force == narrow


@pytest.mark.parametrize("key", WIDER)
def test_what_allows_less_is_in_force_at_once(key: str) -> None:
    narrow, wide = (settings(**each) for each in WIDER[key])
    compared = compare(wide, narrow)
    assert compared == widening.Comparison(narrow, ())


@pytest.mark.parametrize("key", OTHER)
def test_another_directory_project_or_server_widens_both_ways(key: str) -> None:
    one, other = (settings(**each) for each in OTHER[key])
    assert [found[0] for found in widened(one, other)] == [key]
    assert [found[0] for found in widened(other, one)] == [key]
    assert compare(one, other).in_force == one


@pytest.mark.parametrize("field", ["proxy", "ca_file", "trust"])
def test_who_is_spoken_to_and_believed_is_asked_about(field: str) -> None:
    values = {"proxy": "http://proxy:3128", "ca_file": "/ca.pem", "trust": "bundled"}
    other = settings(Link(**{field: values[field]}))
    assert [found[0] for found in widened(settings(), other)] == [f"link.{field}"]
    assert [found[0] for found in widened(other, settings())] == [f"link.{field}"]


def test_timing_of_the_connection_and_the_loudness_of_the_log_are_free() -> None:
    after = msgspec.structs.replace(settings(Link(heartbeat_deadline_s=99, connect_timeout_s=1)), log_level="debug")
    assert compare(settings(), after) == widening.Comparison(after, ())
    assert compare(after, settings()) == widening.Comparison(settings(), ())


def test_every_field_without_a_rule_widens_when_it_changes() -> None:
    """Written over the models themselves, so that a field added tomorrow is asked about until somebody says why not."""
    known = {(Workspace, name) for name in ("root", "project_id", "server")}
    known |= {(Link, name) for name in ("proxy", "ca_file", "trust")}
    for model in (Settings, Link, config.Undo, Workspace, Limits, Policy, Sandbox, Approvals):
        for field in msgspec.structs.fields(model):
            nested = isinstance(field.default, msgspec.Struct) or (model, field.name) == (Settings, "workspaces")
            ruled = (model, field.name) in widening._RULES
            assert nested or ruled or (model, field.name) in known, (
                f"{model.__name__}.{field.name} has no rule in policy/widening.py: a change of it waits for the user. "
                "Name it here if that is meant."
            )


def test_a_new_workspace_waits_and_all_that_is_not_plain_in_it_is_named() -> None:
    bold = Workspace(**{**ROOT, "root": "/srv"}, sandbox=Sandbox(mechanism="none"))
    after = Settings(workspaces={**settings().workspaces, "new": bold})
    compared = compare(settings(), after)
    assert [each.key for each in compared.widenings] == ["workspaces.new", "workspaces.new.sandbox.mechanism"]
    assert "/srv" in compared.widenings[0].text
    assert "https://a.example" in compared.widenings[0].text
    assert compared.in_force == settings()


def test_a_workspace_that_is_gone_is_gone_at_once() -> None:
    assert compare(settings(), Settings()) == widening.Comparison(Settings(), ())


def test_a_renamed_workspace_stops_and_waits_under_its_new_name() -> None:
    after = Settings(workspaces={"other": settings().workspaces["w"]})
    compared = compare(settings(), after)
    assert [each.key for each in compared.widenings] == ["workspaces.other"]
    assert compared.in_force.workspaces == {}


def test_of_a_change_both_ways_the_tighter_half_is_in_force() -> None:
    before = settings(limits=Limits(read_max_bytes=10, write_max_bytes=10), policy=Policy(deny=("a", "b")))
    after = settings(limits=Limits(read_max_bytes=5, write_max_bytes=20), policy=Policy(deny=("b", "c")))
    compared = compare(before, after)
    workspace = compared.in_force.workspaces["w"]
    assert (workspace.limits.read_max_bytes, workspace.limits.write_max_bytes) == (5, 10)
    assert set(workspace.policy.deny) == {"a", "b", "c"}
    assert [each.key for each in compared.widenings] == [
        "workspaces.w.limits.write_max_bytes",
        "workspaces.w.policy.deny",
    ]


def test_a_changed_table_of_a_program_widens_whatever_it_says() -> None:
    mild, stern = ProgramTable(risk="LOW"), ProgramTable(risk="HIGH")
    before, after = settings(policy=Policy(programs={"x": mild})), settings(policy=Policy(programs={"x": stern}))
    compared = compare(before, after)
    assert [each.text for each in compared.widenings] == ["the program 'x' is judged by another table"]
    assert compared.in_force == before


@pytest.mark.parametrize("table", [{"git": ProgramTable(risk="HIGH")}, {"x": ProgramTable(aliases=("git",))}])
def test_the_users_table_taken_from_a_built_in_program_widens(table: dict[str, ProgramTable]) -> None:
    compared = compare(settings(policy=Policy(programs=table)), settings())
    assert [each.key for each in compared.widenings] == ["workspaces.w.policy.programs"]
    assert compared.in_force.workspaces["w"].policy.programs == table


def test_a_password_in_an_address_is_not_shown() -> None:
    (found,) = compare(settings(), settings(Link(proxy="http://ann:hunter2@proxy:3128"))).widenings
    assert "hunter2" not in found.text
    assert "proxy:3128" in found.text


def test_a_long_value_is_cut() -> None:
    kept, cut = "/" + "x" * 299, "/" + "x" * 300
    (found,) = compare(settings(root=kept), settings(root=cut)).widenings
    assert found.text == f"{kept} becomes {kept}…"


def test_a_value_is_shown_as_it_is_written() -> None:
    (found,) = compare(settings(), settings(Link(proxy="http://p"))).widenings
    assert found.text == "nothing becomes http://p"
    assert widening._show(["a", 1, None]) == '["a",1,null]'  # no field that is asked about holds one yet


def test_of_a_list_what_is_new_or_gone_is_named_one_by_one() -> None:
    before, after = (settings(sandbox=Sandbox(toolchains=names)) for names in (("a", "b"), ("b", "c", "d")))
    assert [text for _, text in widened(before, after)] == ["newly allowed: c", "newly allowed: d"]
    assert compare(before, after).in_force.workspaces["w"].sandbox.toolchains == ("b",)
    before, after = (settings(policy=Policy(deny=names)) for names in (("a", "b"), ("b", "c")))
    assert [text for _, text in widened(before, after)] == ["no longer refused: a"]


def test_a_weaker_sandbox_widens_and_a_stronger_one_does_not() -> None:
    weaker: list[Literal["auto", "job-object", "none"]] = ["auto", "job-object", "none"]
    for one, other in combinations(weaker, 2):
        strong, weak = settings(sandbox=Sandbox(mechanism=one)), settings(sandbox=Sandbox(mechanism=other))
        assert widened(strong, weak) == [("sandbox.mechanism", f"{one} becomes {other}")]
        assert widened(weak, strong) == []


def test_a_limit_is_named_with_both_figures() -> None:
    before, after = (settings(limits=Limits(cpu_max_s=seconds)) for seconds in (1, 2))
    assert widened(before, after) == [("limits.cpu_max_s", "1 is raised to 2")]


def test_a_new_program_is_described_and_one_that_stays_is_not_named() -> None:
    plain, full = ProgramTable(), ProgramTable(does="builds", risk="MEDIUM", network=True)
    before = settings(policy=Policy(programs={"git": plain}))
    after = settings(policy=Policy(programs={"git": plain, "a": plain, "cargo": full}))
    assert [text for _, text in widened(before, after)] == [
        "the program 'a' may be run: no description, HIGH",
        "the program 'cargo' may be run: builds, MEDIUM, with the network",
    ]
    assert compare(before, after).in_force == before


_names = st.lists(st.sampled_from(["a", "b", "c", "git"]), max_size=3, unique=True).map(tuple)
_workspaces = st.builds(
    Workspace,
    root=st.sampled_from(["/a", "/b"]),
    project_id=st.sampled_from(["p", "q"]),
    server=st.just("https://a.example"),
    limits=st.builds(Limits, read_max_bytes=st.integers(1, 3), cpu_max_s=st.integers(1, 3)),
    policy=st.builds(
        Policy,
        deny=_names,
        refused_extensions=_names,
        remove_programs=_names,
        programs=st.dictionaries(
            st.sampled_from(["git", "x"]), st.builds(ProgramTable, risk=st.sampled_from(["LOW", "HIGH"])), max_size=2
        ),
    ),
    sandbox=st.builds(Sandbox, mechanism=st.sampled_from(["auto", "none"]), toolchains=_names),
    approvals=st.builds(Approvals, unattended=st.sampled_from(["wait", "reject"])),
)
_settings = st.builds(
    Settings,
    workspaces=st.dictionaries(st.sampled_from(["v", "w"]), _workspaces, max_size=2),
    link=st.builds(Link, proxy=st.sampled_from(["", "http://p"])),
)


@given(_settings, _settings)
def test_what_is_in_force_never_allows_more_than_before(before: Settings, after: Settings) -> None:
    assert compare(before, compare(before, after).in_force).widenings == ()


@given(_settings, _settings)
def test_what_is_in_force_never_allows_more_than_the_new_settings_either(before: Settings, after: Settings) -> None:
    """But for what is another rather than wider, of which the old one holds until the user has said yes."""
    in_force = compare(before, after).in_force
    others = ("root", "project_id", "server", "programs", "proxy")
    left = [each for each in compare(after, in_force).widenings if not each.key.endswith(others)]
    assert left == []


@given(_settings, _settings)
def test_without_a_widening_the_new_settings_are_in_force_as_they_are(before: Settings, after: Settings) -> None:
    compared = compare(before, after)
    if not compared.widenings:
        assert compared.in_force == after
    assert compare(after, after) == widening.Comparison(after, ())


def test_what_is_in_force_is_a_configuration_of_its_own() -> None:
    """Encoded and read back, it is the same: it is kept over a restart while something waits."""
    compared = compare(settings(policy=Policy(deny=("a",))), settings(limits=Limits(read_max_bytes=5)))
    encoded = msgspec.json.encode(compared.in_force)
    assert msgspec.json.decode(encoded, type=config.Settings) == compared.in_force
