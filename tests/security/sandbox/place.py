"""What the programs that try to get out have in common. Each is run as if a person had approved it by mistake.

A machine without the full mechanism fails these tests: there is nothing here to skip.
"""

from __future__ import annotations

from pathlib import Path

from client_agent.sandbox import Access, Job, Network, Outcome, Sandbox

SECRET = "s3cr3t-canary-8d1f"

# Every attempt prints its name and what held it. `tried` at the end shows that the program came that far.
ATTEMPTS = """
import ctypes, errno, fcntl, os, signal, socket, stat, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    result = libc.syscall(*(ctypes.c_long(a) if isinstance(a, int) else a for a in args))
    if result < 0: raise OSError(ctypes.get_errno(), "refused")
    return result
def attempt(name, function, *args):
    try: result = function(*args)
    except OSError as error: print(name, "held", errno.errorcode.get(error.errno, error.errno))
    else: print(name, "ESCAPED", result)
def write(path, text="canary"):
    with open(path, "w") as file: file.write(text)
def read(path):
    with open(path, "rb") as file: return file.read()
"""


class Place:
    """A workspace, what lies beside it, and a sandbox around what runs in it."""

    def __init__(self, workspace: Path, outside: Path, sandbox: Sandbox) -> None:
        self.workspace = workspace
        self.outside = outside
        self.sandbox = sandbox

    async def python(
        self, code: str, *args: str, access: Access = Access.WRITABLE, network: Network = Network.OFF
    ) -> Outcome:
        program = self.sandbox.find_program("python3")
        assert program is not None
        argv = (program, "-c", ATTEMPTS + code + "\nprint('tried')", *args)
        return await self.sandbox.run(Job(argv=argv, access=access, network=network, wall_s=20))

    async def attempt(
        self, code: str, *args: str, access: Access = Access.WRITABLE, network: Network = Network.OFF
    ) -> str:
        """Runs attempts and sees that every one of them was held."""
        outcome = await self.python(code, *args, access=access, network=network)
        assert outcome.stdout.endswith("tried\n"), (outcome.stdout, outcome.stderr)
        assert "ESCAPED" not in outcome.stdout
        assert " held " in outcome.stdout
        return outcome.stdout
