"""What people install: built from this checkout, put onto a machine of its own as far as that goes, used, removed."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
# A machine without Python, as far as the program can see.
BARE = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


def run(*command: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, timeout=900, check=False, env=env, cwd=cwd
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The packages, made once, whichever worker comes first."""
    base = tmp_path_factory.getbasetemp()
    into = (base if worker_id == "master" else base.parent) / "packages"
    with Path(f"{into}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not into.exists():
            # The coverage of the tools that build it is nobody's concern.
            env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
            run(sys.executable, PROJECT / "packaging" / "build.py", "--into", f"{into}.new", cwd=PROJECT, env=env)
            Path(f"{into}.new").rename(into)
    return into


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    return {**BARE, "HOME": str(home)}


def files_of(directory: Path) -> set[Path]:
    return {path.relative_to(directory) for path in directory.rglob("*") if not path.is_dir() or path.is_symlink()}


def use(program: Path, tmp_path: Path, env: Mapping[str, str]) -> None:
    """What shows that all of it is there: templates, a guarded file, a confined command, a whole demonstration."""
    root = tmp_path / "workspace"
    root.mkdir(exist_ok=True)
    (root / "a.md").write_text("hello\n")

    def call(tool: str, **params: Any) -> Any:
        output = run(program, "call", tool, json.dumps(params), "--workspace", root, "--json", env=env)
        return json.loads(output)["result"]

    assert "Type=notify" in run(program, "service", "install", "--print", env=env)
    assert run(program, "config", "example", env=env) == (PROJECT / "config.example.toml").read_text("utf-8")
    assert call("read_file", path="a.md")["content"] == "hello\n"
    listed = call("execute_command", command="ls")
    assert listed["stdout"] == "a.md\n"
    assert "LD_LIBRARY_PATH" not in listed.get("withheld_environment", ())
    steps = [json.loads(line) for line in run(program, "demo", "--json", env=env).splitlines()]
    assert steps
    assert all(step["ok"] for step in steps)


def test_the_wheel_is_installed_used_and_removed(built: Path, tmp_path: Path, home: dict[str, str]) -> None:
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    site = Path(run(venv / "bin/python", "-c", "import site; print(site.getsitepackages()[0])").strip())
    # The libraries are those of the environment that runs the tests; the program itself is the wheel's.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    before = files_of(venv)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", venv / "bin/python"]
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", *built.glob("*.whl"))
    where = run(venv / "bin/python", "-P", "-c", "import client_agent; print(client_agent.__file__)", env=home).strip()
    assert Path(where).is_relative_to(site)
    use(venv / "bin" / "client-agent", tmp_path, home)
    run(*pip, "uninstall", "--quiet", "--yes", "client-agent")
    left = {path for path in files_of(venv) - before if "__pycache__" not in path.parts}
    assert not left


def test_the_bundle_runs_wherever_it_is_put(built: Path, tmp_path: Path, home: dict[str, str]) -> None:
    moved = tmp_path / "somewhere else"
    shutil.copytree(built / "client-agent", moved, symlinks=True)
    use(moved / "client-agent", tmp_path, home)


def test_the_debian_package_is_installed_used_and_removed(built: Path, tmp_path: Path, home: dict[str, str]) -> None:
    (package,) = built.glob("*.deb")
    root = tmp_path / "root"
    for directory in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "usr", "var/log"):
        (root / directory).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    (root / "var/lib/dpkg/available").touch()
    # An ordinary user becomes the owner of that root in a namespace of its own, as fakeroot would have it.
    owner = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
    dpkg = [*owner, "dpkg", f"--root={root}", f"--log={root}/var/log/dpkg.log", "--force-depends"]
    path = {**home, "PATH": f"{home['PATH']}:/usr/sbin:/sbin"}
    run(*dpkg, "--install", package, env=path)
    manual = gzip.decompress((root / "usr/share/man/man1/client-agent.1.gz").read_bytes()).decode()
    assert "\n.SS client\\-agent approvals watch\n" in manual
    assert "Another daemon uses the same state directory." in manual
    script = root / "usr/share/bash-completion/completions/client-agent"
    assert "client-agent" in run("bash", "-c", f'source "{script}"; complete -p client-agent', env=home)
    use(root / "usr/bin/client-agent", tmp_path, home)
    run(*dpkg, "--purge", "client-agent", env=path)
    assert {path for path in files_of(root) if path.parts[0] == "usr"} == set()
    assert not (root / "usr/lib/client-agent").exists()


@pytest.mark.parametrize("template", ["homebrew/client-agent.rb.in", "winget/client-agent.yaml.in", "deb/control.in"])
def test_a_template_asks_for_nothing_that_a_release_does_not_know(template: str) -> None:
    known = ("version", "url", "sha256", "homepage", "architecture", "libc", "kilobytes")
    filled = Template((PROJECT / "packaging" / template).read_text()).substitute(dict.fromkeys(known, "1.2.3"))
    assert "1.2.3" in filled
