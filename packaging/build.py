"""Makes what people install, from this checkout: `python packaging/build.py [--into DIR] [wheel|bundle|deb ...]`.

wheel   for pipx, uv and pip
bundle  a directory that needs no Python (PyInstaller), and the same as a .tar.gz
deb     the bundle with manual page and completion as a Debian package
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from string import Template

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "packaging"
SHELLS = {
    "bash": "usr/share/bash-completion/completions/client-agent",
    "zsh": "usr/share/zsh/vendor-completions/_client-agent",
    "fish": "usr/share/fish/vendor_completions.d/client-agent.fish",
}


def version() -> str:
    text = (ROOT / "client_agent" / "__init__.py").read_text("utf-8")
    return text.partition('__version__ = "')[2].partition('"')[0]


def build_wheel(into: Path) -> Path:
    """The wheel; whatever hatchling puts into it is what `pip install .` gives as well."""
    _run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(into))
    return into / f"client_agent-{version()}-py3-none-any.whl"


def build_bundle(into: Path) -> Path:
    """The directory; beside it an archive of it."""
    work = into / "work"
    _run(
        sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN", "--distpath", str(into),
        "--workpath", str(work), str(HERE / "bundle.spec"),
    )  # fmt: skip
    shutil.rmtree(work)
    bundle = into / "client-agent"
    with tarfile.open(into / f"client-agent-{version()}-{sys.platform}.tar.gz", "w:gz") as archive:
        archive.add(bundle, arcname=f"client-agent-{version()}")
    return bundle


def build_deb(into: Path, bundle: Path) -> Path:
    """The Debian package: the bundle beneath /usr/lib, and what belongs around it."""
    architecture = _run("dpkg", "--print-architecture").strip()
    tree = into / "deb"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(bundle, tree / "usr/lib/client-agent", symlinks=True)
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/client-agent").symlink_to("../lib/client-agent/client-agent")
    _write(tree / "usr/share/man/man1/client-agent.1.gz", _squeeze(_run(sys.executable, str(HERE / "manual.py"))))
    for shell, path in SHELLS.items():
        _write(tree / path, complete(shell, bundle / "client-agent").encode())
    documents = tree / "usr/share/doc/client-agent"
    _write(documents / "copyright", (HERE / "deb/copyright").read_bytes() + (ROOT / "LICENSE").read_bytes())
    _write(documents / "changelog.gz", _squeeze((ROOT / "CHANGELOG.md").read_text("utf-8")))
    _write(documents / "config.example.toml", (ROOT / "config.example.toml").read_bytes())
    _write_control(tree, architecture)
    package = into / f"client-agent_{version()}_{architecture}.deb"
    _run("dpkg-deb", "--root-owner-group", "--build", str(tree), str(package))
    shutil.rmtree(tree)
    return package


def complete(shell: str, program: Path) -> str:
    """The completion script of a shell, as the program itself gives it."""
    return _run(str(program), environment={**os.environ, "_CLIENT_AGENT_COMPLETE": f"source_{shell}"})


def _write_control(tree: Path, architecture: str) -> None:
    files = sorted(each for each in tree.rglob("*") if each.is_file() and not each.is_symlink())
    libc = os.confstr("CS_GNU_LIBC_VERSION") or "glibc 2.31"
    control = Template((HERE / "deb/control.in").read_text("utf-8")).substitute(
        version=version(),
        architecture=architecture,
        libc=libc.split()[-1],
        kilobytes=sum(each.stat().st_size for each in files) // 1024,
    )
    sums = "".join(f"{hashlib.md5(each.read_bytes()).hexdigest()}  {each.relative_to(tree)}\n" for each in files)
    _write(tree / "DEBIAN/control", control.encode())
    _write(tree / "DEBIAN/md5sums", sums.encode())
    for path in tree.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def _squeeze(text: str) -> bytes:
    return gzip.compress(text.encode(), 9, mtime=0)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _run(*command: str, environment: dict[str, str] | None = None) -> str:
    return subprocess.run(command, check=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes what people install.")
    parser.add_argument("what", nargs="*", default=["wheel", "bundle", "deb"], help="wheel, bundle, deb (default: all)")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="the directory for it (default: dist)")
    chosen = parser.parse_args()
    into = chosen.into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    if "wheel" in chosen.what:
        print(build_wheel(into))
    if "bundle" in chosen.what or "deb" in chosen.what:
        bundle = build_bundle(into)
        print(bundle)
        if "deb" in chosen.what:
            print(build_deb(into, bundle))


if __name__ == "__main__":
    main()
