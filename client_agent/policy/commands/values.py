"""What the value of an option, or an operand, may be. The kinds that a table can name:

text     words that are never opened or run: a search pattern, a message
path     a file or directory: must lie inside the workspace, links followed, and not be protected
any      may or may not be a path: refused where it certainly leads out, riskier where it seems to
word     like any, and it names what is run (a script of package.json, a target): part of the class
script   a path that is run, and so part of the class
sub      a sub-command with a table of its own, which judges the rest
command  this and everything after it is another command, judged by its own table
exec     another command up to ";" or "+", as in `find -exec`
python   program text, judged by what it imports and calls
shell    program text, judged by its parts
remote   a repository of git: an address, or a path
refspec  what git is to push where: overwrites with "+", deletes with ":"
archive  a path that tar would take as another machine's where it holds a colon
format   an output format beginning with "+"
moment   a point in time as `date` reads it, which can name a file of time zones
tailed   a path that tail would take as an old option where it begins with a plus
pretty   a format or an order of git's, which can have signatures checked
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING

from client_agent.policy.commands.findings import Findings
from client_agent.policy.commands.python_text import judge_python
from client_agent.policy.decision import Assessment, Inspect, PathKind, Reason, Risk
from client_agent.policy.paths import climbs_out

# The one place outside every workspace that says nothing and keeps nothing.
NOWHERE = "/dev/null"

# An absolute path that begins so is a path on this machine, whatever the argument is for.
_SYSTEM = re.compile(
    r"/+(?:(?:bin|boot|dev|etc|home|lib\w*|media|mnt|nix|opt|proc|root|run|sbin|snap|srv|sys|tmp|usr|var"
    r"|Applications|Library|System|Users|Volumes|private)(?:/|$)|$)"
)
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^\s,]*)")
_SEPARATORS = re.compile(r"[=,:@]")
_HOST = re.compile(r"[^/:]+:")
_GIT_SCHEMES = frozenset({"https", "http", "ssh", "git", "git+ssh", "ssh+git", "ftp", "ftps"})
_NUMERIC_HOST = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+))*")
_ELSEWHERE = re.compile(r"~|[A-Za-z][A-Za-z0-9+.-]*:/")  # the home directory as a shell knows it, an address
_ZONE_FILE = re.compile(r"TZ=[\"':]*[/.~]")
_FOLLOWING = re.compile(r"\+\d*[bcl]?f")
_SIGNATURE = re.compile(r"%[-+ ]?G|(?:%\(|^-?)\*?signature")
_MAX_PIECES = 16
# What a path that may be no path at all is refused for.
_FORBIDDEN = frozenset({"path_outside", "path_protected", "too_many_paths"})

if TYPE_CHECKING:
    JudgeCommand = Callable[[list[str]], Assessment]
    JudgeShell = Callable[[str, Findings], None]


class Values:
    """Judges the values of one command and notes what it finds."""

    def __init__(
        self,
        inspect: Inspect,
        findings: Findings,
        command: JudgeCommand,
        shell: JudgeShell,
        public: tuple[str, ...],
    ) -> None:
        self._inspect = inspect
        self._findings = findings
        self._command = command
        self._shell = shell
        self.public = public  # directories of the system that the program may be pointed at
        self._by_kind: dict[str, Callable[[str], None]] = {
            "path": self.check_path,
            "any": self.check_any,
            "word": self._check_word,
            "script": self._check_script,
            "python": self._check_python,
            "shell": self._check_shell,
            "remote": self._check_remote,
            "refspec": self._check_refspec,
            "archive": self._check_archive,
            "format": self._check_format,
            "moment": self._check_moment,
            "tailed": self._check_tailed,
            "pretty": self._check_pretty,
        }

    def check(self, kind: str, value: str) -> None:
        """Judges one value; text needs no judging."""
        check = self._by_kind.get(kind)
        if check is not None:
            check(value)

    def check_command(self, argv: list[str]) -> None:
        """Judges a command inside the command."""
        self._findings.opaque = True
        self._findings.absorb(self._command(argv))

    def check_path(self, value: str) -> None:
        if value == NOWHERE or self._is_public(value):
            return
        facts = self._inspect(value)
        if facts.refusal is not None:
            self._refuse(value, facts.refusal)
        elif facts.kind is PathKind.MISSING and _ELSEWHERE.match(value):
            self._seems_outside(value)  # the program takes it as it stands, but who wrote it meant another place
        elif facts.kind is PathKind.SPECIAL:
            self._findings.raise_to(Risk.HIGH, "special_file", f"{_short(value)} is a device, FIFO or socket")

    def check_any(self, value: str) -> None:
        for address in _ADDRESS.finditer(value):
            self._check_address(address)
        for piece in _pieces(_ADDRESS.sub("", value)):
            if piece != NOWHERE and not self._is_public(piece):
                self._check_piece(piece)

    def _check_address(self, found: re.Match[str]) -> None:
        if found[1].lower().endswith("file"):  # npm knows git+file, too
            self.check_path("/" + found[2].lstrip("/"))
        elif hides_option(found[2]):
            self._refuse_option(found[0])
        elif is_local_host(found[2]):
            self._refuse_local(found[0])

    def _refuse_option(self, address: str) -> None:
        self._findings.refuse("transport_refused", f"{_short(address)} hides an option in the name of a host")

    def _refuse_local(self, address: str) -> None:
        """A command that is given the network could talk to whatever listens on this machine, and around it."""
        text = f"{_short(address)} is on this machine or in its own network"
        self._findings.refuse("address_local", text)

    def _check_piece(self, piece: str) -> None:
        certain = _SYSTEM.match(piece) if piece.startswith("/") else not piece.startswith("~")
        refusal = self._inspect(piece).refusal
        if refusal is not None and refusal.code in _FORBIDDEN and certain:
            self._refuse(piece, refusal)
        elif (refusal is not None and piece.startswith("/")) or piece.startswith("~") or climbs_out(piece):
            self._seems_outside(piece)

    def _refuse(self, value: str, refusal: Reason) -> None:
        text = refusal.text if repr(value) in refusal.text else f"{_short(value)}: {refusal.text}"
        self._findings.refuse(refusal.code, text)

    def _seems_outside(self, piece: str) -> None:
        self._findings.raise_to(Risk.HIGH, "seems_outside", f"{_short(piece)} looks like a path outside the workspace")

    def _is_public(self, value: str) -> bool:
        """Whether the program's table says that it may be pointed at this directory of the system."""
        climbs = "/../" in value + "/"
        return not climbs and any(value == place or value.startswith(place + "/") for place in self.public)

    def _check_word(self, value: str) -> None:
        self._findings.label.append(shlex.quote(value))
        self.check_any(value)

    def _check_script(self, value: str) -> None:
        self._findings.label.append(shlex.quote(value))
        self.check_path(value)

    def _check_python(self, value: str) -> None:
        reasons = judge_python(value, self._inspect)
        self._findings.exact.append(value)
        for reason in reasons:
            self._findings.raise_to(Risk.HIGH, reason.code, reason.text)

    def _check_shell(self, value: str) -> None:
        self._findings.exact.append(value)
        self._shell(value, self._findings)

    def _check_remote(self, value: str) -> None:
        address = _ADDRESS.match(value)
        if "::" in value.partition("/")[0]:
            self._findings.refuse("transport_refused", f"{_short(value)} names a transport that runs a program")
        elif hides_option(value if address is None else address[2]):
            self._refuse_option(value)
        elif address is None:
            if not _HOST.match(value):
                self.check_any(value)
            elif is_local_host(value):
                self._refuse_local(value)
        elif address[1].lower() == "file":
            self._check_address(address)
        elif is_local_host(address[2]):
            self._refuse_local(value)
        elif address[1].lower() not in _GIT_SCHEMES:
            text = f"{_short(value)} needs a helper program for {address[1]!r}"
            self._findings.raise_to(Risk.HIGH, "transport_unknown", text)

    def _check_refspec(self, value: str) -> None:
        if value.startswith(("+", ":")):
            text = f"{_short(value)} overwrites or deletes what others have"
            self._findings.raise_to(Risk.HIGH, "overwrites_remote", text)
        self.check_any(value)

    def _check_archive(self, value: str) -> None:
        if _HOST.match(value):
            text = f"{_short(value)} is an archive on another machine: a colon means a host"
            self._findings.refuse("remote_archive", text)
        else:
            self.check_path(value)

    def _check_format(self, value: str) -> None:
        if not value.startswith("+"):
            text = f"{_short(value)} is no output format, and would set the clock"
            self._findings.raise_to(Risk.HIGH, "sets_clock", text)

    def _check_moment(self, value: str) -> None:
        if _ZONE_FILE.search(value) or ("TZ=" in value and ".." in value):
            self._findings.raise_to(Risk.HIGH, "names_zone_file", f"{_short(value)} reads a file of time zones")

    def _check_tailed(self, value: str) -> None:
        if _FOLLOWING.fullmatch(value):
            self._findings.raise_to(Risk.MEDIUM, "goes_on", f"{_short(value)} goes on until it is stopped")
        self.check_path(value)

    def _check_pretty(self, value: str) -> None:
        if _SIGNATURE.search(value):
            self._findings.raise_to(Risk.HIGH, "checks_signature", f"{_short(value)} runs gpg")

    def is_module(self, name: str) -> bool:
        """Whether Python would find a module of this name in the workspace."""
        if not all(part.isidentifier() for part in name.split(".")):
            return False
        path = name.replace(".", "/")
        found = map(self._inspect, (f"{path}/__main__.py", f"{path}.py", f"src/{path}/__main__.py", f"src/{path}.py"))
        return any(facts.kind is PathKind.FILE and facts.refusal is None for facts in found)


def hides_option(rest: str) -> bool:
    """Whether ssh, which is handed `user@host` as it stands, would take it for an option."""
    authority = rest.split("/", 1)[0]
    return authority.startswith("-") or authority.rsplit("@", 1)[-1].startswith("-")


def is_local_host(rest: str) -> bool:
    """Whether `user@host:port/path` is on this machine, in its own network, or has no host that could be told."""
    authority = rest.split("/", 1)[0].rsplit("@", 1)[-1]
    host = authority[1:].split("]", 1)[0] if authority.startswith("[") else authority.split(":", 1)[0]
    host = host.removesuffix(".").lower()
    if host in ("", "localhost") or host.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        return not ip_address(host).is_global
    except ValueError:
        # 127.1, 0x7f000001 and 2130706433 are addresses to a resolver, though to nobody else.
        return _NUMERIC_HOST.fullmatch(host) is not None


def _pieces(value: str) -> Iterator[str]:
    """What a program might take as a path in an argument: the whole, and what stands between `=`, `,`, `:`, `@`."""
    whole = value[2:] if value.startswith("-") and not value.startswith("--") else value
    yield whole
    parts = _SEPARATORS.split(whole)
    if len(parts) > _MAX_PIECES:
        parts = [part for part in parts if part.startswith("/") or climbs_out(part)][:_MAX_PIECES]
    yield from (part for part in parts if part != whole)


def _short(value: str) -> str:
    return repr(value) if len(value) <= 80 else repr(value[:77] + "...")  # noqa: PLR2004
