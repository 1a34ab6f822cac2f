"""Whose connection it is, read from the kernel's table."""

from __future__ import annotations

import socket

import pytest

from client_agent.local_api.peers import CAN_TELL, find_owner, is_same_user

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
OURS, THEIRS = ("127.0.0.1", 0x1F90), ("127.0.0.1", 0xC001)


def row(local: str, remote: str, state: str, uid: int) -> str:
    return f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000  {uid}        0 12345 1 0 20 4\n"


def test_the_owner_is_that_of_their_end_and_not_of_ours() -> None:
    table = HEAD + row("0100007F:1F90", "0100007F:C001", "01", 1) + row("0100007F:C001", "0100007F:1F90", "01", 1000)
    assert find_owner(table, OURS, THEIRS) == 1000


@pytest.mark.parametrize("state", ["04", "05", "06"])
def test_a_connection_that_is_being_closed_has_no_owner(state: str) -> None:
    """The kernel says 0 for such a one, which is root's number."""
    assert find_owner(HEAD + row("0100007F:C001", "0100007F:1F90", state, 0), OURS, THEIRS) is None


def test_one_that_is_not_there_has_no_owner() -> None:
    assert find_owner(HEAD, OURS, THEIRS) is None
    assert find_owner(HEAD + row("0100007F:C002", "0100007F:1F90", "01", 0), OURS, THEIRS) is None


@pytest.mark.skipif(not CAN_TELL, reason="only Linux tells")
def test_the_kernel_knows_a_connection_of_our_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert is_same_user(server.getsockname(), client.getsockname())
        client.close()
        assert not is_same_user(server.getsockname(), ("127.0.0.1", 1))
