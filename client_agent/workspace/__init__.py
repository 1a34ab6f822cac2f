"""Guarded file access beneath the workspace root. The only code that opens workspace files."""
