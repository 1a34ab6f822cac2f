"""Secrets in the workspace, by name and by place, however they are moved, linked or replaced."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from client_agent.policy.paths import Protection
from client_agent.sandbox import Access, open_sandbox
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
