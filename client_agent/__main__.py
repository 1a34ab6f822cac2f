"""`python -m client_agent`, the same as `client-agent`."""

from client_agent.cli import main

main()
