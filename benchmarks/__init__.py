"""How fast the program is: against the raw limits of the machine and against its peers, in one run.

`python -m benchmarks` is the short form, `--publish` the one behind `docs/benchmarks.md`, `--peers` the comparison.
"""
