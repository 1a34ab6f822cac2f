"""What Python program text given on a command line would do, judged by what it imports and names.

This keeps questions honest, and confines nothing: text that hides what it does is held by the sandbox alone.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from client_agent.policy.decision import Inspect, Reason

MAX_CHARS = 16_384
_MAX_PATH_CHARS = 255

_MODULE_GROUPS: dict[str, str] = {
    "starts processes": "subprocess pty multiprocessing concurrent _posixsubprocess signal pexpect sh",
    "reaches the network": """
        socket _socket ssl http urllib urllib3 requests httpx aiohttp websockets ftplib smtplib poplib imaplib nntplib
        telnetlib xmlrpc socketserver asyncio selectors select webbrowser paramiko smtpd asyncore asynchat wsgiref
        pip""",
    "can do what cannot be judged": """
        ctypes _ctypes cffi importlib imp runpy code codeop pickle marshal shelve builtins ensurepip venv zipimport
        pkgutil setuptools distutils fcntl termios posix nt mmap""",
}
_NAME_GROUPS: dict[str, str] = {
    "starts processes or ends them": """
        system popen fork forkpty posix_spawn posix_spawnp startfile kill killpg execl execle execlp execlpe execv
        execve execvp execvpe spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe""",
    "deletes files or changes who may use them": "unlink rmdir removedirs rmtree chmod chown lchown",
    "can do what cannot be judged": """
        __import__ __builtins__ __subclasses__ __globals__ __getattribute__ __loader__ import_module run_path run_module
        setuid setgid chroot mknod""",
}
_BUILTINS = "eval exec compile getattr setattr delattr globals locals vars breakpoint"

_MODULES = {name: what for what, names in _MODULE_GROUPS.items() for name in names.split()}
_NAMES = {name: what for what, names in _NAME_GROUPS.items() for name in names.split()}
_BARE_NAMES = {**_NAMES, **dict.fromkeys(_BUILTINS.split(), "can do what cannot be judged")}


def judge_python(text: str, inspect: Inspect) -> list[Reason]:
    """The facts that make this text HIGH; none when it is ordinary."""
    if len(text) > MAX_CHARS:
        return [Reason("python_unparsed", f"the text has over {MAX_CHARS} characters: too long to judge")]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about the text
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [Reason("python_unparsed", "the text cannot be parsed as Python")]
    return list(dict.fromkeys(reason for node in ast.walk(tree) for reason in _judge_node(node, inspect)))


def _judge_node(node: ast.AST, inspect: Inspect) -> Iterator[Reason]:
    match node:
        case ast.Import(names):
            for alias in names:
                yield from _judge_module(alias.name)
        case ast.ImportFrom(module=module, names=names):
            if module:
                yield from _judge_module(module)
            for alias in names:
                yield from _judge_name(alias.name, {**_BARE_NAMES, "remove": "deletes files"})
        case ast.Name(id=name):
            yield from _judge_name(name, _BARE_NAMES)
        case ast.Attribute(value=ast.Name(id="os"), attr="remove"):
            yield from _judge_name("remove", {"remove": "deletes files"})
        case ast.Attribute(attr=name):
            yield from _judge_name(name, _NAMES)
        case ast.Constant(value=str(value)):
            yield from _judge_string(value, inspect)


def _judge_module(name: str) -> Iterator[Reason]:
    top = name.split(".", 1)[0]
    if top in _MODULES:
        yield Reason("python_imports", f"the text imports {top!r}, which {_MODULES[top]}")


def _judge_name(name: str, known: dict[str, str]) -> Iterator[Reason]:
    if name in known:
        yield Reason("python_uses", f"the text uses {name!r}, which {known[name]}")


def _judge_string(value: str, inspect: Inspect) -> Iterator[Reason]:
    """Whether a string in the text looks like a path that no call may use."""
    if not 1 < len(value) <= _MAX_PATH_CHARS or not value.isprintable() or " " in value:
        return
    if value.startswith("~/") or (("/" in value or "." in value) and inspect(value).refusal is not None):
        yield Reason("python_outside", f"the text names {value!r}, which is outside the workspace or protected")
