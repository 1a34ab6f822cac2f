"""The Linux launcher: a small process of its own, with nothing imported beyond the standard library.

It is started as a package called `launcher`, without the rest of the program, so that it stays small and starts fast.
Here nothing may import from outside this directory, and everything inside is imported relatively.
"""
