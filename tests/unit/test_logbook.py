"""The daemon's log: private, bounded, masked, and read without losing a line."""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from client_agent import logbook
from client_agent.logbook import LOG_FILE, Line, Reader, writing

log = logging.getLogger("client_agent.tests")


def past(state_dir: Path) -> list[Line]:
    with closing(Reader(state_dir)) as reader:
        return list(reader.past())


def test_a_line_says_when_what_and_whose(tmp_path: Path) -> None:
    with writing(tmp_path, "info"):
        token = logbook.workspace.set("demo")
        log.warning("the server answered %d", 500)
        logbook.workspace.reset(token)
        log.debug("not wanted")
    (line,) = past(tmp_path)
    assert (line.level, line.message, line.workspace) == ("warning", "the server answered 500", "demo")
    assert line.time.tzinfo is not None
    assert json.loads((tmp_path / LOG_FILE).read_text())["logger"] == "client_agent.tests"


def test_only_its_owner_can_read_it_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with writing(tmp_path, "info"):
            log.info("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / LOG_FILE).stat().st_mode) == 0o600


def test_a_link_put_in_its_place_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    (tmp_path / LOG_FILE).symlink_to(target)
    with writing(tmp_path, "info"):
        log.info("x")
    assert not target.exists()


def test_secrets_are_masked_and_tricks_spelled_out(tmp_path: Path) -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJlc2lnbmF0dXJl"
    with writing(tmp_path, "info"):
        log.info("sent Authorization: Bearer %s", token)
        log.info("password=hunter2 \x1b[2J\u202egnp.exe\nsecond line")
        log.error("it failed", exc_info=RuntimeError(f"refused {token}"))
    text = (tmp_path / LOG_FILE).read_text()
    assert token not in text
    assert "hunter2" not in text
    assert "\\u001b" not in text
    assert "\u202e" not in text
    *_, fault = past(tmp_path)
    assert any("RuntimeError" in line for line in fault.trace)
    assert len(text.splitlines()) == 3


def test_it_never_grows_beyond_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logbook, "MAX_FILE_BYTES", 2_000)
    with writing(tmp_path, "info"):
        for number in range(500):
            log.info("line %d %s", number, "x" * 5_000)
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == logbook.KEPT_FILES + 1
    assert all(each.stat().st_size < 5_000 for each in kept)
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in kept)
    assert past(tmp_path)[-1].message.startswith("line 499 ")


def test_a_disk_that_takes_nothing_costs_the_line_and_nothing_else(tmp_path: Path) -> None:
    with writing(tmp_path / "gone", "info"):
        log.info("x")


def test_a_changed_level_holds_at_once(tmp_path: Path) -> None:
    with writing(tmp_path, "error"):
        log.warning("not wanted")
        logbook.listen_from("debug")
        log.debug("wanted")
    assert [line.message for line in past(tmp_path)] == ["wanted"]


def test_what_is_not_a_line_is_passed_by(tmp_path: Path) -> None:
    with writing(tmp_path, "info"):
        log.info("one")
    with (tmp_path / LOG_FILE).open("ab") as file:
        file.write(b'garbage\n{"half')
    assert [line.message for line in past(tmp_path)] == ["one"]


def test_following_gives_every_line_once_across_a_rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logbook, "MAX_FILE_BYTES", 3_000)
    monkeypatch.setattr(logbook, "_FOLLOW_S", 0.001)
    seen: list[str] = []
    caught_up = threading.Semaphore(0)

    def follow(reader: Reader) -> None:
        for line in reader.coming():
            seen.append(line.message)
            caught_up.release()
            if line.message == "line 59":
                return

    with writing(tmp_path, "info"):
        log.info("before")
        with closing(Reader(tmp_path)) as reader:
            assert [line.message for line in reader.past()] == ["before"]
            thread = threading.Thread(target=follow, args=(reader,))
            thread.start()
            for number in range(60):
                log.info("line %d", number)
                assert caught_up.acquire(timeout=20)
            thread.join(20)
    assert seen == [f"line {number}" for number in range(60)]
    assert (tmp_path / f"{LOG_FILE}.1").exists()
