"""Commands: what a program would do with the arguments it is given, judged by one table a program."""

from client_agent.policy.commands.assessment import assess_command
from client_agent.policy.commands.loading import load_programs
from client_agent.policy.commands.program import Programs

__all__ = ["Programs", "assess_command", "load_programs"]
