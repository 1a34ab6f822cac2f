"""The newcomer's path: every shell line of README and of the documents, tried in order in a home that knows nothing."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.home import PATIENCE_S, PROGRAM, Home, wait_until

PROJECT = Path(__file__).parents[2]
# What sets the project up from a checkout, or is for a person at a terminal, is tried elsewhere.
ELSEWHERE = ("make ", "git ", "pip", "uv ")
# A line whose answer is a code of its own.
ANSWERS = {"client-agent check write_file": 3}
PORT = "8765"


def shell_lines(document: Path) -> list[str]:
    """The commands in the indented blocks, a continued one as one."""
    text = document.read_text()
    blocks = re.findall(r"(?m)(?:^\n|\A)((?:^    .*\n)+)", text)
    joined = "".join(blocks).replace("\\\n", " ")
    lines = [line.strip().removeprefix("$ ") for line in joined.splitlines()]
    return [line for line in lines if line.startswith(("client-agent ", "curl ", "printf ")) and not is_elsewhere(line)]


def is_elsewhere(line: str) -> bool:
    return line.startswith(ELSEWHERE)


class Newcomer:
    """Types what a document says, and reads what comes of it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.root = home.place / "project"
        self.root.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        self.background: list[subprocess.Popen[bytes]] = []
        home.env["PATH"] = f"{Path(PROGRAM).parent}:{home.env['PATH']}"

    def type(self, line: str) -> str:
        """Runs one line as a shell does; says what it printed."""
        command = self.fill_in(line.replace(PORT, self.port))
        if (stays := re.sub(r"\s*(#.*)?$", "", command)).endswith("&"):
            self.leave_running(stays.removesuffix("&"))
            return ""
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"],
            env=self.home.env, cwd=self.root, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        expected = next((code for start, code in ANSWERS.items() if line.startswith(start)), 0)
        assert done.returncode == expected, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def leave_running(self, command: str) -> None:
        self.background.append(subprocess.Popen(["bash", "-c", f"exec {command}"], env=self.home.env, cwd=self.root))
        if "client-agent server" in command.split("Bearer", maxsplit=1)[0]:
            wait_until(self.listens)

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(self.port))) == 0

    def fill_in(self, line: str) -> str:
        """The words in capitals that a person replaces by what they see."""
        if re.search(r"\bID\b", line):
            (question,) = wait_until(lambda: self.home.told("approvals", "list")["questions"])
            line = re.sub(r"\bID\b", question["id"][:8], line)
        if re.search(r"\bCALL\b", line):
            line = re.sub(r"\bCALL\b", self.last_call(), line)
        return line

    def last_call(self) -> str:
        shown = self.home.run("audit", "show", "--json").stdout.splitlines()
        found = re.findall(r'"(?:call|tool_id)":\s*"([^"]+)"', "".join(shown))
        assert found
        return found[-1]


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    home = Home(tmp_path / "home")
    with home.ending():
        person = Newcomer(home)
        try:
            yield person
        finally:
            for process in person.background:
                process.terminate()
                process.wait(PATIENCE_S)


def test_the_readme_works_line_by_line_in_a_clean_home(newcomer: Newcomer) -> None:
    lines = shell_lines(PROJECT / "README.md")
    commands = " ".join(lines)
    for step in ("init", "login", "start", "approvals approve", "status", "stop", "why", "audit verify"):
        assert f"client-agent {step}" in commands, f"the README does not show {step}"
    (newcomer.root / "README.md").write_text("# mine\n")
    subprocess.run(["git", "init", "--quiet", str(newcomer.root)], check=True, env=newcomer.home.env)
    for line in lines:
        newcomer.type(line)
        if "approvals approve" in line:
            wait_until((newcomer.root / "hello.md").exists)
    assert (newcomer.root / "hello.md").read_text() == "hi\n"
    assert newcomer.home.run("status").returncode == 6


def test_what_a_document_shows_is_what_comes_of_it(newcomer: Newcomer) -> None:
    shown = re.findall(r"(?m)^    \$ (.+)\n    (.+)$", (PROJECT / "docs" / "cli.md").read_text())
    assert shown
    for line, answer in shown:
        assert newcomer.type(line).strip() == answer.strip()


def test_every_command_that_a_document_names_exists(tmp_path: Path) -> None:
    listed = Home(tmp_path / "home").run("--help").stdout.split("Commands:")[1]
    known = set(re.findall(r"(?m)^  ([a-z]+) ", listed))
    for document in (PROJECT / "README.md", *(PROJECT / "docs").glob("*.md")):
        named = set(re.findall(r"(?m)(?:`|^    (?:\$ )?)client-agent ([a-z]+)", document.read_text()))
        assert named <= known, f"{document.name} names what does not exist: {named - known}"
