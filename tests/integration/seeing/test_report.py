"""The bundle for a bug report: what is in it, and what must never be."""

from __future__ import annotations

import asyncio
import json
import logging
import tarfile
from pathlib import Path

import pytest

from client_agent import logbook
from client_agent.journal.journal import Journal
from client_agent.policy.decision import Decision, Risk, Verdict
from client_agent.protocol.calls import Call
from client_agent.report import gather, write

TOKEN = "plain-token-without-any-shape-4711"
SECRETS = {
    "token": TOKEN,
    "content": "the content of a file",
    "path": "very-private-file-name",
    "proxy": "proxy-password-99",
    "logged": "sk-live0123456789abcdefghij",
    "deny": "deny-pattern-of-mine",
}


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle made where every secret lies about."""
    home, state, root = tmp_path / "home", tmp_path / "state", tmp_path / "home" / "ws"
    root.mkdir(parents=True)
    state.mkdir(mode=0o700)
    (root / SECRETS["path"]).write_text(SECRETS["content"])
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CLIENT_AGENT_TOKEN", TOKEN)
    config = tmp_path / "config.toml"
    config.write_text(
        f'[link]\nproxy = "http://ann:{SECRETS["proxy"]}@127.0.0.1:9"\nconnect_timeout_s = 2\n'
        f'[workspaces.w]\nroot = "{root}"\nproject_id = "p"\nserver = "http://127.0.0.1:9"\n'
        f'[workspaces.w.policy]\ndeny = ["{SECRETS["deny"]}"]\n'
    )
    with logbook.writing(state, "info"):
        log = logging.getLogger("client_agent.tests")
        log.info("the server said %s and %s", SECRETS["logged"], TOKEN)
        log.info("a line about %s", root)
    asyncio.run(_record_a_call(state))
    target = tmp_path / "report.tar.gz"
    write(gather(config, state), target)
    return target


async def _record_a_call(state: Path) -> None:
    journal = Journal(state)
    try:
        ledger = journal.recover("w").ledger
        params = {"path": SECRETS["path"], "content": SECRETS["content"]}
        ledger.admit(Call(tool_id="t1", tool_name="write_file", tool_params=params), effects=True)
        ledger.decide("t1", Decision(verdict=Verdict.ASK, risk=Risk.MEDIUM, reasons=(), code="needs_approval"))
        await asyncio.to_thread(journal.flush)
    finally:
        journal.close()


def contents(bundle: Path) -> dict[str, str]:
    with tarfile.open(bundle) as opened:
        members = opened.getmembers()
        return {each.name: (opened.extractfile(each) or open("/dev/null", "rb")).read().decode() for each in members}


def test_no_secret_that_lies_about_is_in_it(parts: Path) -> None:
    for name, text in contents(parts).items():
        for what, secret in SECRETS.items():
            assert secret not in text, f"{what} is in {name}"
        assert str(parts.parent / "home") not in text, f"the home directory is named in {name}"


def test_it_holds_what_helps(parts: Path) -> None:
    found = {name.removeprefix("client-agent-report/"): json.loads(text) for name, text in contents(parts).items()}
    assert set(found) == {"versions.json", "doctor.json", "config.json", "status.json", "calls.json", "log.json"}
    assert found["versions.json"]["client_agent"]
    assert {finding["check"] for finding in found["doctor.json"]} >= {"configuration", "sandbox", "journal"}
    assert found["config.json"]["settings"]["workspaces"]["w"]["project_id"] == "p"
    assert found["config.json"]["settings"]["workspaces"]["w"]["policy"]["deny"] == 1
    assert "no daemon is running" in found["status.json"]["not_available"]
    assert found["calls.json"]["calls"] == [["write_file", "ask", "AWAITING_APPROVAL", "-", 1]]
    assert found["log.json"][1]["message"] == "a line about ~/ws"


def test_only_its_owner_can_read_it_and_nothing_is_replaced(parts: Path) -> None:
    assert parts.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write([], parts)
