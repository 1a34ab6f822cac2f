"""client_agent: lets AI agents on a server use files and tools on this laptop, under the user's rules."""

__version__ = "0.1.0"
