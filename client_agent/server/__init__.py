"""The reference server: the other side of the protocol. Imports protocol and policy, nothing else of ours."""
