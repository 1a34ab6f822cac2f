"""Tests other people's servers and clients: the cases of the wire protocol, over real HTTP."""
