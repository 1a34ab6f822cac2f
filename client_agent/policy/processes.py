"""The risk of what can be done with a command that goes on in the background."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from client_agent.policy.decision import Assessment, CallClass, Reason, Risk, refusing
from client_agent.protocol.tools import ProcessInput, ProcessKill, ProcessOutput


class ProcessFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A command in the background, as far as judging what is done with it needs it."""

    argv: tuple[str, ...]
    read_only: bool
    network: bool


# Handed in by the caller: a handle and the session that names it → the process, if it is that session's.
FindProcess: TypeAlias = Callable[[str, str | None], ProcessFacts | None]


def assess_output(params: ProcessOutput) -> Assessment:
    """What it wrote would have been its result, had it been waited for."""
    reason = Reason("reads_output", f"reads what the process {params.process_id[:12]} has written")
    call_class = CallClass(label="process_output", risk=Risk.LOW)
    return Assessment(risk=Risk.LOW, reasons=(reason,), read_only=True, call_class=call_class)


def assess_kill(params: ProcessKill) -> Assessment:
    """To end what one has started needs nobody's leave."""
    reason = Reason("ends_process", f"ends the process {params.process_id[:12]}")
    return Assessment(risk=Risk.LOW, reasons=(reason,), call_class=CallClass(label="process_kill", risk=Risk.LOW))


def assess_input(params: ProcessInput, facts: ProcessFacts | None, *, confined: bool) -> Assessment:
    """What is typed may be a program, and no table knows what the one it is typed into makes of it.

    Only where that one can change nothing, here or over the network, nothing depends on it. A yes holds for this one
    process.
    """
    if facts is None:
        return refusing(Reason("no_such_process", "this session has no process of that name"))
    command = shlex.join(facts.argv)
    if facts.read_only and not facts.network and confined:
        reason = Reason("types_harmlessly", f"types into {command!r}, which can change nothing")
        return Assessment(risk=Risk.LOW, reasons=(reason,), read_only=True, call_class=_class(params, facts, Risk.LOW))
    reason = Reason("types_into", f"types into {command!r}, which may do with it whatever it was allowed to do")
    call_class = _class(params, facts, Risk.HIGH)
    return Assessment(risk=Risk.HIGH, reasons=(reason,), network=facts.network, call_class=call_class)


def assess_unseen_input(params: ProcessInput) -> Assessment:
    """The same where processes cannot be seen, as on a server."""
    reason = Reason("types_into", f"types into the process {params.process_id[:12]}")
    return Assessment(risk=Risk.HIGH, reasons=(reason,))


def _class(params: ProcessInput, facts: ProcessFacts, risk: Risk) -> CallClass:
    label = f"input to {facts.argv[0]}"
    return CallClass(label=label, risk=risk, exact=(params.process_id,), network=facts.network)
