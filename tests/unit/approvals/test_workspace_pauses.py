"""A workspace that is paused: every call is refused, by whichever process said so, until it is resumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from client_agent.approvals.permissions import Permissions
from client_agent.policy.decision import Decision, Reason, Risk, Verdict
from client_agent.protocol.calls import Call

CALL = Call(tool_id="t", tool_name="read_file", tool_params={"path": "a"})
RUN = Decision(verdict=Verdict.RUN, risk=Risk.LOW, reasons=(Reason("low", "it only reads"),), code="low_risk")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def permissions(tmp_path: Path, clock: Clock) -> Iterator[Permissions]:
    with closing(Permissions(tmp_path, clock)) as opened:
        yield opened


def test_what_would_run_or_ask_is_refused_with_the_users_note(permissions: Permissions) -> None:
    permissions.pause("w", "at lunch")
    for verdict in (Verdict.RUN, Verdict.ASK):
        decision = permissions.apply("w", CALL, msgspec.structs.replace(RUN, verdict=verdict))
        assert (decision.verdict, decision.code) == (Verdict.REFUSE, "paused")
        assert "(at lunch)" in decision.reasons[0].text
    assert permissions.apply("another", CALL, RUN) == RUN


def test_what_is_refused_anyway_keeps_its_own_reason(permissions: Permissions) -> None:
    permissions.pause("w")
    refused = msgspec.structs.replace(RUN, verdict=Verdict.REFUSE, code="path_outside")
    assert permissions.apply("w", CALL, refused) == refused


def test_a_pause_made_by_another_process_holds_at_once_and_outlives_both(
    tmp_path: Path, permissions: Permissions
) -> None:
    assert permissions.apply("w", CALL, RUN) == RUN
    with closing(Permissions(tmp_path)) as other:
        other.pause("w", "first")
        other.pause("w", "second")
    pause = permissions.find_pause("w")
    assert pause is not None
    assert pause.note == "second"
    assert permissions.resume("w")
    assert not permissions.resume("w")
    assert permissions.apply("w", CALL, RUN) == RUN


def test_a_pause_for_a_time_ends_by_itself(permissions: Permissions, clock: Clock) -> None:
    permissions.pause("w", for_s=60)
    clock.now += 59.9
    assert permissions.apply("w", CALL, RUN).code == "paused"
    clock.now += 0.1
    assert permissions.apply("w", CALL, RUN) == RUN
    assert not permissions.resume("w")
