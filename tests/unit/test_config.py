"""Configuration: what is read, what is refused, and what a workspace's own file may do."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from client_agent import config
from client_agent.config import file
from client_agent.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"


def nested_model(hint: Any) -> type[msgspec.Struct] | None:
    """The model that a key's value is made of, directly, or by name or number."""
    for candidate in (hint, *get_args(hint)):
        if isinstance(candidate, type) and issubclass(candidate, msgspec.Struct):
            return candidate
    return None


def model_keys(model: type[msgspec.Struct], seen: set[type[msgspec.Struct]] | None = None) -> set[tuple[str, str]]:
    seen = set() if seen is None else seen
    if model in seen:
        return set()
    seen.add(model)
    keys: set[tuple[str, str]] = set()
    for name, hint in get_type_hints(model).items():
        keys.add((model.__name__, name))
        if (nested := nested_model(hint)) is not None:
            keys |= model_keys(nested, seen)
    return keys


def toml_keys(table: dict[str, Any], model: type[msgspec.Struct]) -> set[tuple[str, str]]:
    keys: set[tuple[str, str]] = set()
    hints = get_type_hints(model)
    for name, value in table.items():
        keys.add((model.__name__, name))
        nested = nested_model(hints[name])
        if nested is not None:
            tables = (
                value.values() if get_origin(hints[name]) is dict else value if isinstance(value, list) else [value]
            )
            for each in tables:
                keys |= toml_keys(each, nested)
    return keys


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def workspace_toml(root: Path, more: str = "") -> str:
    return f'[workspaces.w]\nroot = "{root}"\nproject_id = "p"\nserver = "https://example.com"\n{more}'


def test_the_example_and_the_models_know_the_same_keys() -> None:
    example = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    assert toml_keys(example, config.Settings) == model_keys(config.Settings)


def test_the_examples_own_program_is_judged_as_it_says(tmp_path: Path) -> None:
    from client_agent.assembly import check_settings

    text = EXAMPLE.read_text(encoding="utf-8").replace("~/src/example", str(tmp_path))
    check_settings(config.load(write(tmp_path / "c.toml", text)))
    broken = text.replace('high = ["cargo install x"', 'high = ["cargo tree"')
    with pytest.raises(
        ConfigError, match=r"workspaces\.example\.policy\.programs\.cargo\.examples\.high: 'cargo tree'"
    ):
        check_settings(config.load(write(tmp_path / "c.toml", broken)))


def test_every_key_of_the_example_has_a_comment_above_its_block() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if line and not line.startswith(("#", "[")):
            above = number - 1
            while lines[above] and not lines[above].startswith(("#", "[")):
                above -= 1
            assert lines[above].startswith("#") or lines[above - 1].startswith("#"), line


def test_the_example_shows_the_defaults(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("~/src/example", str(tmp_path))
    settings = config.load(write(tmp_path / "c.toml", text))
    example = settings.workspaces["example"]
    assert (settings.link, settings.log_level) == (config.Link(), "info")
    assert (example.limits, example.approvals) == (config.Limits(), config.Approvals())
    assert msgspec.structs.replace(example.policy, programs={}) == config.Policy()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lnk = 1", ["lnk: unknown key", "did you mean 'link'?"]),
        ("colour = 1", ["colour: unknown key", "known keys: version, log_level, link"]),
        ('log_level = "loud"', ["log_level: found 'loud'", "one of 'debug', 'info', 'warning', 'error'"]),
        ("[link]\nheartbeat_deadline_s = -1", ["link.heartbeat_deadline_s: found -1", "expected float > 0"]),
        ("[link]\nproxy = 3", ["link.proxy: found 3, expected str"]),
        ("link = 3", ["link: found 3, expected a table"]),
        ('[workspaces."a b"]\nroot = "/"', ["workspaces.a b: found 'a b'", "a name of letters, digits, - and _"]),
        ("[workspaces.w]\nroot = '/'", ["workspaces.w.project_id: missing; expected str"]),
        (
            "[workspaces.w]\nroot='/'\nproject_id='p'\nserver='ftp://x'",
            ["workspaces.w.server: found 'ftp://x'", "http:// or https://"],
        ),
        (
            "[workspaces.w]\nroot='/'\nproject_id='p'\nserver='https://u:p@x'",
            ["workspaces.w.server: found", "without user name"],
        ),
        (
            "[workspaces.w]\nlimits.read_max_byte = 1",
            ["workspaces.w.limits.read_max_byte: unknown key; did you mean 'read_max_bytes'?"],
        ),
        ("[workspaces.w]\nlimits.list_max_entries = 1001", ["limits.list_max_entries: found 1001", "<= 1000"]),
        ("a = = 1", ["not valid TOML"]),
    ],
)
def test_a_wrong_value_names_file_key_found_and_expected(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path / "c.toml", text)
    with pytest.raises(ConfigError) as caught:
        config.load(path)
    assert str(path) in caught.value.message
    for word in words:
        assert word in caught.value.message


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "c.toml", 'log_level = "x"\nlnk = 1\n[link]\nproxy = 1\n')
    with pytest.raises(ConfigError) as caught:
        config.load(path)
    assert len(caught.value.message.splitlines()) == 3


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ("relative/dir", "absolute path"),
        ("/no/such/directory/here", "directory that exists"),
        ("/", "not the whole disk"),
    ],
)
def test_a_root_that_cannot_be_a_workspace_is_refused(tmp_path: Path, root: str, words: str) -> None:
    path = write(tmp_path / "c.toml", workspace_toml(Path(root)))
    with pytest.raises(ConfigError, match=words) as caught:
        config.load(path)
    assert "workspaces.w.root" in caught.value.message


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file") as caught:
        config.load(tmp_path / "none.toml")
    assert caught.value.code == "config_missing"


def test_a_file_that_is_not_text_says_so(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        config.load(path)


def test_the_workspaces_own_file_tightens(tmp_path: Path) -> None:
    write(tmp_path / ".client-agent.toml", '[limits]\nread_max_bytes = 10\n[policy]\ndeny = ["b"]\n')
    path = write(tmp_path / "c.toml", workspace_toml(tmp_path, '[workspaces.w.policy]\ndeny = ["a"]\n'))
    workspace = config.load(path).workspaces["w"]
    assert workspace.limits.read_max_bytes == 10
    assert workspace.limits.write_max_bytes == config.Limits().write_max_bytes
    assert workspace.policy.deny == ("a", "b")


def test_the_workspaces_own_file_cannot_widen_a_limit(tmp_path: Path) -> None:
    write(tmp_path / ".client-agent.toml", "[limits]\nread_max_bytes = 99999999\n")
    path = write(tmp_path / "c.toml", workspace_toml(tmp_path, "[workspaces.w.limits]\nread_max_bytes = 10\n"))
    assert config.load(path).workspaces["w"].limits.read_max_bytes == 10


@pytest.mark.parametrize("text", ['root = "/"', 'server = "https://evil.example"', "[approvals]\nhigh_timeout_s = 1"])
def test_the_workspaces_own_file_can_say_nothing_else(tmp_path: Path, text: str) -> None:
    write(tmp_path / ".client-agent.toml", text)
    path = write(tmp_path / "c.toml", workspace_toml(tmp_path))
    with pytest.raises(ConfigError, match="unknown key"):
        config.load(path)


def test_environment_variables_choose_the_places(tmp_path: Path) -> None:
    env = {"CLIENT_AGENT_CONFIG": str(tmp_path / "x.toml"), "CLIENT_AGENT_STATE_DIR": str(tmp_path / "s")}
    assert config.config_path(env) == tmp_path / "x.toml"
    assert config.state_dir(env) == tmp_path / "s"


def test_without_them_the_platforms_places_are_used() -> None:
    assert config.config_path({}).name == "config.toml"
    assert "client-agent" in str(config.config_path({}))
    assert "client-agent" in str(config.state_dir({}))


def test_a_directory_alone_makes_a_workspace_with_default_policy(tmp_path: Path) -> None:
    workspace = config.local_workspace(tmp_path)
    assert workspace.limits == config.Limits()
    with pytest.raises(ConfigError, match="expected an http"):
        config.local_workspace(tmp_path, server="nonsense")


def test_a_file_of_an_older_format_is_read_as_if_it_were_of_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(raw: dict[str, Any]) -> None:
        raw["log_level"] = raw.pop("verbosity")

    monkeypatch.setattr(file, "UPGRADES", (rename,))
    path = tmp_path / "config.toml"
    path.write_text('verbosity = "debug"\n')
    assert config.load(path).log_level == "debug"
    path.write_text('version = 2\nlog_level = "error"\n')
    assert (config.load(path).version, config.load(path).log_level) == (2, "error")


def test_a_file_of_a_newer_format_is_refused_whatever_else_it_says(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("version = 2\nunheard_of = true\n")
    with pytest.raises(ConfigError, match="newer client-agent") as caught:
        config.load(path)
    assert caught.value.code == "downgrade"


@pytest.mark.parametrize("version", ["0", "-1", '"1"', "1.0", "[]"])
def test_a_format_that_is_no_number_is_told(tmp_path: Path, version: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"version = {version}\n")
    with pytest.raises(ConfigError, match="version: found"):
        config.load(path)
