"""Guarded file access beneath the workspace root. The only code that opens workspace files.

`Root` (root.py) is the door. A path is found by one `openat2` where the kernel has it (openat2.py), and otherwise, or
when that cannot answer, by a walk from directory to directory (walk.py) that follows links by hand. Both hold what they
found by descriptor, and everything is judged on that: a swap between check and use gains nothing.
"""
