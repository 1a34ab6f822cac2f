"""A process, confined: limits, output, whole-tree kill."""
