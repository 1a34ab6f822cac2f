"""Secrets in the workspace, by name and by place, however they are moved, linked or replaced."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any

import pytest

from client_agent.errors import Unavailable
from client_agent.policy.paths import Protection
from client_agent.sandbox import Access, open_sandbox
from client_agent.sandbox.linux import Launcher
from tests.security.sandbox.place import SECRET, Place

READ_SECRETS = """
for name in (".env", "sub/.env.local", "sub/key.pem", "sub/deep/id_rsa"):
    attempt(name, read, name)
    attempt(name + " by root", read, "/proc/self/root" + os.getcwd() + "/" + name)
attempt("directory", os.listdir, ".ssh")
attempt("in directory", read, ".ssh/id_ed25519")
"""


def put_secrets(workspace: Path) -> None:
    for name in (".env", "sub/.env.local", "sub/key.pem", "sub/deep/id_rsa", ".ssh/id_ed25519"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(SECRET)


@pytest.mark.parametrize("access", list(Access))
async def test_secrets_in_the_workspace_cannot_be_read(place: Place, access: Access) -> None:
    put_secrets(place.workspace)
    assert SECRET not in await place.attempt(READ_SECRETS, access=access)


async def test_secrets_cannot_be_reached_by_moving_or_linking_them(place: Place) -> None:
    put_secrets(place.workspace)
    out = await place.attempt(
        """
attempt("rename", os.rename, ".env", "readable")
attempt("link", os.link, ".env", "readable")
attempt("remove", os.unlink, ".env")
attempt("exchange", call, 316, -100, b".env", -100, b"sub/key.pem", 2)
attempt("move directory", os.rename, ".ssh", "readable")
os.rename("sub", "moved")
attempt("after move", read, "moved/.env.local")
attempt("chmod", os.chmod, ".env", 0o644)
attempt("open", read, ".env")
"""
    )
    assert SECRET not in out
    assert (place.workspace / ".env").read_text() == SECRET
    assert SECRET not in await place.attempt('attempt("moved", read, "moved/key.pem")')


async def test_a_secret_that_appears_later_is_hidden_from_the_next_command(place: Place) -> None:
    assert (await place.python("pass", access=Access.READ_ONLY)).exit_code == 0
    put_secrets(place.workspace)
    assert SECRET not in await place.attempt(READ_SECRETS, access=Access.READ_ONLY)


async def test_a_secret_saved_by_renaming_is_hidden_from_the_next_command(place: Place) -> None:
    put_secrets(place.workspace)
    await place.attempt(READ_SECRETS, access=Access.READ_ONLY)
    (place.workspace / "spare").write_text(SECRET)
    (place.workspace / "spare").rename(place.workspace / ".env")
    assert SECRET not in await place.attempt(READ_SECRETS, access=Access.READ_ONLY)


async def test_a_directory_with_secrets_moved_into_the_workspace_is_searched(place: Place) -> None:
    assert (await place.python("pass", access=Access.READ_ONLY)).exit_code == 0
    put_secrets(place.outside / "tree")
    (place.outside / "tree").rename(place.workspace / "tree")
    out = await place.attempt('os.chdir("tree")\n' + READ_SECRETS, access=Access.READ_ONLY)
    assert SECRET not in out


async def test_a_link_with_a_secrets_name_hides_what_it_points_to(place: Place) -> None:
    (place.workspace / "settings").write_text(SECRET)
    (place.workspace / ".env").symlink_to("settings")
    await place.attempt('attempt("link", read, ".env"); attempt("target", read, "settings")')


async def test_a_link_with_a_secrets_name_cannot_be_taken_from_what_it_points_to(place: Place) -> None:
    (place.workspace / "settings").mkdir()
    (place.workspace / "settings" / "production").write_text(SECRET)
    (place.workspace / "sub").mkdir()
    (place.workspace / "sub" / ".env").symlink_to("../settings/production")
    await place.attempt(
        """
attempt("remove", os.unlink, "sub/.env")
attempt("replace", lambda: (write("spare"), os.rename("spare", "sub/.env")))
attempt("move", os.rename, "sub/.env", "moved")
attempt("move its directory", os.rename, "sub", "moved")
attempt("move the target's directory", os.rename, "settings", "moved")
os.mkdir("a"); os.rename("a", "b")  # by which everything is looked at again
"""
    )
    await place.attempt('attempt("target", read, "settings/production")')
    assert (place.workspace / "sub" / ".env").is_symlink()


@pytest.mark.parametrize(
    "protection",
    [Protection(deny=["private/x"]), Protection(deny=["private/**"]), Protection(own=["private/x"])],
    ids=["one", "all", "own"],
)
async def test_what_is_protected_by_its_place_cannot_be_moved_away_from_it(
    workspace: Path, protection: Protection
) -> None:
    (workspace / "private").mkdir()
    (workspace / "private" / "x").write_text(SECRET)
    sandbox = await open_sandbox(workspace, is_protected=protection.find)
    try:
        place = Place(workspace, workspace, sandbox)
        await place.attempt(
            """
attempt("move", os.rename, "private", "moved")
attempt("move it", os.rename, "private/x", "x")
write("private/beside"); os.rename("private/beside", "private/moved")
"""
        )
        await place.attempt('attempt("read", read, "private/x"); attempt("moved", read, "moved/x")')
    finally:
        await sandbox.close()


@pytest.mark.parametrize("mode", ["0", "100", "300"])
@pytest.mark.parametrize("directory", ["settings/deep", "settings", "."])
async def test_secrets_in_a_directory_that_a_command_made_unreadable_stay_hidden(
    place: Place, directory: str, mode: str
) -> None:
    secret = place.workspace / "settings" / "deep" / ".env"
    secret.parent.mkdir(parents=True)
    secret.write_text(SECRET)
    hide = 'os.mkdir("a"); os.rename("a", "b"); os.chmod(sys.argv[1], int(sys.argv[2], 8))'
    assert (await place.python(hide, directory, mode)).exit_code == 0
    look = """
attempt("at once", read, "settings/deep/.env")
for path in (".", "settings", "settings/deep"):
    attempt("chmod " + path, os.chmod, path, 0o700)
attempt("then", read, "settings/deep/.env")
"""
    with contextlib.suppress(Unavailable):  # no command runs where nothing can be known
        out = (await place.python(look)).stdout
        assert SECRET not in out
        assert "then held EACCES" in out
    (place.workspace / directory).chmod(0o700)
    await place.attempt('attempt("readable again", read, "settings/deep/.env")')


async def test_a_secret_put_into_a_directory_that_was_unreadable_is_hidden(place: Place) -> None:
    assert (await place.python('os.mkdir("settings", 0)')).exit_code == 0
    assert (await place.python("pass")).exit_code == 0
    (place.workspace / "settings").chmod(0o700)
    assert (await place.python("pass")).exit_code == 0
    (place.workspace / "settings" / ".env").write_text(SECRET)
    await place.attempt('attempt("secret", read, "settings/.env")')


async def test_a_secret_moved_while_a_launcher_is_being_made_is_hidden(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a command in the background could do it: what the launcher was told to hide is gone from there."""
    (place.workspace / "settings").mkdir()
    (place.workspace / "settings" / ".env").write_text(SECRET)
    start = Launcher.start

    async def start_late(self: Launcher, plan: dict[str, Any]) -> None:
        monkeypatch.undo()
        (place.workspace / "settings").rename(place.workspace / "moved")
        await start(self, plan)

    monkeypatch.setattr(Launcher, "start", start_late)
    await place.attempt('attempt("moved", read, "moved/.env")')


async def test_no_command_runs_where_secrets_move_all_the_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Launcher.start
    number = 0

    async def start_late(self: Launcher, plan: dict[str, Any]) -> None:
        nonlocal number
        number += 1
        (place.workspace / f"{number}.env").write_text(SECRET)
        await start(self, plan)

    monkeypatch.setattr(Launcher, "start", start_late)
    with pytest.raises(Unavailable, match="faster than it can be hidden"):
        await place.python("pass")


async def test_the_daemons_own_files_in_the_workspace_are_hidden(workspace: Path) -> None:
    state = workspace / "state"
    state.mkdir()
    (state / "token").write_text(SECRET)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(state / "door"))
        door.listen()
        sandbox = await open_sandbox(workspace, is_protected=Protection(own=["state"]).find)
        try:
            await Place(workspace, workspace, sandbox).attempt(
                """
attempt("list", os.listdir, "state")
attempt("token", read, "state/token")
attempt("door", lambda: socket.socket(socket.AF_UNIX).connect("state/door"))
attempt("write", write, "state/canary")
"""
            )
        finally:
            await sandbox.close()
    assert not (state / "canary").exists()
