"""Mutation testing: small faults are put into a room's code, one at a time, and its tests must notice each."""
