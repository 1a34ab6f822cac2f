"""The services of the other systems: what is written for them is well-formed and says what it must."""

from __future__ import annotations

import plistlib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from client_agent.service import Launchd, Plan, Systemd, TaskScheduler, find_manager, quote_for_systemd

ODD = 'C:\\Users & <Co>\\"it" 100% $HOME'


def plan() -> Plan:
    environment = {"PATH": "/a b:/c", "CLIENT_AGENT_STATE_DIR": ODD}
    return Plan(
        program=("/opt/<odd> & name/python", "-m", "client_agent"), environment=environment, state_dir=Path("/s")
    )


def test_each_system_has_its_manager() -> None:
    assert [find_manager(name).name for name in ("linux", "darwin", "win32")] == [
        "systemd",
        "launchd",
        "Task Scheduler",
    ]


def test_what_launchd_reads_is_what_was_meant() -> None:
    read = plistlib.loads(Launchd().render(plan()).encode())
    assert read["ProgramArguments"] == ["/opt/<odd> & name/python", "-m", "client_agent", "run", "--until-ready"]
    assert read["EnvironmentVariables"] == {"PATH": "/a b:/c", "CLIENT_AGENT_STATE_DIR": ODD}
    assert read["KeepAlive"] == {"SuccessfulExit": False}
    assert read["RunAtLoad"] is True
    assert read["Umask"] == 0o077


def test_what_the_task_scheduler_reads_is_what_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USERDOMAIN", "R&D")
    monkeypatch.setenv("USERNAME", "ann")
    text = TaskScheduler().render(plan())
    task = ET.fromstring(text.split("?>", 1)[1])  # noqa: S314 - our own text
    names = {"t": "http://schemas.microsoft.com/windows/2004/02/mit/task"}
    assert task.findtext("t:Actions/t:Exec/t:Command", namespaces=names) == "/opt/<odd> & name/python"
    assert task.findtext("t:Actions/t:Exec/t:Arguments", namespaces=names) == "-m client_agent run"
    assert task.findtext("t:Principals/t:Principal/t:UserId", namespaces=names) == "R&D\\ann"
    assert task.findtext("t:Settings/t:RestartOnFailure/t:Count", namespaces=names) == "5"
    assert task.findtext("t:Settings/t:ExecutionTimeLimit", namespaces=names) == "PT0S"


@pytest.mark.parametrize(
    ("text", "variables", "quoted"),
    [
        ("plain", False, '"plain"'),
        ('a "b" \\ c', False, '"a \\"b\\" \\\\ c"'),
        ("100%", False, '"100%%"'),
        ("$HOME", False, '"$HOME"'),
        ("$HOME", True, '"$$HOME"'),
        ("a\nExecStart=/bin/evil", False, '"a\\nExecStart=/bin/evil"'),
    ],
)
def test_a_word_of_a_unit_stays_one_word(text: str, variables: bool, quoted: str) -> None:
    assert quote_for_systemd(text, variables=variables) == quoted


def test_a_service_serves_the_state_directory_it_was_installed_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    manager = Systemd()
    assert not manager.serves(tmp_path / "state")
    manager.file.parent.mkdir(parents=True)
    environment = {"CLIENT_AGENT_STATE_DIR": str(tmp_path / "state")}
    here = Plan(program=("p",), environment=environment, state_dir=tmp_path / "state")
    manager.file.write_text(manager.render(here))
    assert manager.serves(tmp_path / "state")
    assert not manager.serves(tmp_path / "another")
    assert not manager.serves(tmp_path / "sta")
