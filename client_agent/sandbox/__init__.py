"""A process, confined: limits, output, whole-tree kill.

`open_sandbox` gives the best this machine offers for a workspace; `Sandbox.run` runs one command to its end, and
`Sandbox.launch` one that goes on by itself. What is promised, and what holds each promise, is in docs/security.md.
"""

from client_agent.sandbox.background import Background, Processes
from client_agent.sandbox.detection import Confinement, detect, open_sandbox
from client_agent.sandbox.environment import login_shell_path
from client_agent.sandbox.jobs import Access, Ending, Job, Limits, Mechanism, Network, NoMechanism, Outcome, Stdin
from client_agent.sandbox.runner import Process, Sandbox

__all__ = [
    "Access",
    "Background",
    "Confinement",
    "Ending",
    "Job",
    "Limits",
    "Mechanism",
    "Network",
    "NoMechanism",
    "Outcome",
    "Process",
    "Processes",
    "Sandbox",
    "Stdin",
    "detect",
    "login_shell_path",
    "open_sandbox",
]
