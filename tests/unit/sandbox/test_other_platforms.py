"""What is generated for macOS and Windows, and what is said where nothing confines."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from client_agent.sandbox import Access, Confinement, Limits, Mechanism, Network, NoMechanism, detect, detection
from client_agent.sandbox.macos import compose_profile
from client_agent.sandbox.windows import compose_limits, environment_block

WORKSPACE = Path("/Users/me/my project")


def profile(
    access: Access = Access.READ_ONLY, network: Network = Network.OFF, hidden: tuple[str, ...] = ()
) -> list[str]:
    text = compose_profile(
        workspace=WORKSPACE,
        tmp="/private/var/folders/x",
        access=access,
        network=network,
        toolchains=[Path("/Users/me/.pyenv")],
        hidden=hidden,
    )
    return text.splitlines()


def test_a_profile_denies_what_it_does_not_allow() -> None:
    assert profile()[:2] == ["(version 1)", "(deny default)"]
    assert '(allow file-read* (subpath "/Users/me/.pyenv"))' in profile()
    assert '(allow file-read* (subpath "/Users/me/my project"))' in profile()
    assert not any("network" in rule for rule in profile())
    assert [rule for rule in profile() if "allow" in rule and "file-write*" in rule] == [
        '(allow file-read* file-write* (subpath "/private/var/folders/x"))'
    ]


def test_a_writable_profile_excepts_what_runs_on_its_own_account() -> None:
    rules = profile(Access.WRITABLE)
    allowed = rules.index('(allow file-write* (subpath "/Users/me/my project"))')
    for rule in (
        '(deny file-write* (subpath "/Users/me/my project/.git/hooks"))',
        '(deny file-write* (subpath "/Users/me/my project/.git/config"))',
        '(deny file-write-unlink (literal "/Users/me/my project/.git"))',
        '(deny file-write* (literal "/Users/me/my project/.client-agent.toml"))',
    ):
        assert rules.index(rule) > allowed


def test_secrets_are_denied_last() -> None:
    rules = profile(Access.WRITABLE, hidden=(".env", "sub/key.pem"))
    assert rules[-2:] == [
        '(deny file-read* file-write* (subpath "/Users/me/my project/.env"))',
        '(deny file-read* file-write* (subpath "/Users/me/my project/sub/key.pem"))',
    ]


def test_a_path_cannot_break_out_of_its_quotes() -> None:
    rules = profile(hidden=('a") (allow default) ("',))
    assert rules[-1].endswith('/a\\") (allow default) (\\""))')


def test_the_network_opens_internet_addresses_and_no_local_doors() -> None:
    rules = profile(Access.WRITABLE, Network.ON)
    assert rules.index("(deny network-outbound (remote unix-socket))") > rules.index("(allow network-outbound)")


def test_a_job_object_ends_all_with_its_last_handle() -> None:
    wanted = compose_limits(Limits(processes=9, memory_bytes=1 << 30, cpu_s=7))
    assert wanted.basic.limit_flags & 0x2000
    assert wanted.basic.limit_flags & (0x2 | 0x8 | 0x200) == 0x2 | 0x8 | 0x200
    assert wanted.basic.active_process_limit == 9
    assert wanted.basic.per_process_user_time == 70_000_000
    assert wanted.job_memory_limit == 1 << 30
    if ctypes.sizeof(ctypes.c_void_p) == 8:
        assert ctypes.sizeof(wanted) == 144  # as the system's headers have it


def test_an_environment_block_is_sorted_and_ended() -> None:
    assert environment_block({"b": "2", "A": "1", "c": ""}) == "A=1\0b=2\0c=\0\0"


async def test_this_machine_has_the_full_mechanism() -> None:
    found = await detect()
    assert isinstance(found, Mechanism)
    assert (found.name, found.gaps) == ("namespaces", ())
    assert found.accesses == tuple(Access)


async def test_running_unconfined_must_be_chosen_and_says_what_it_means() -> None:
    found = await detect(Confinement.NONE)
    assert isinstance(found, Mechanism)
    assert found.name == "none"
    assert found.gaps


@pytest.mark.parametrize(
    ("setting", "value", "word"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "max_user_namespaces"),
    ],
)
def test_a_machine_that_forbids_namespaces_is_told_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, word: str
) -> None:
    (tmp_path / setting).parent.mkdir(parents=True)
    (tmp_path / setting).write_text(value + "\n")
    monkeypatch.setattr(detection, "_SYSCTL", tmp_path)
    found = detection.explain(["unshare: Operation not permitted"])
    assert found == NoMechanism(reason="unshare: Operation not permitted", remedy=found.remedy)
    assert word in found.remedy


async def test_without_any_mechanism_nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "_choices", lambda *_: [])
    found = await detect()
    assert isinstance(found, NoMechanism)
    assert found.remedy
