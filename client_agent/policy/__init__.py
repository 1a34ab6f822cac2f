"""Decisions: paths, commands, risk, rules. Pure: no I/O."""
