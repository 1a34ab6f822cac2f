"""One module a kind of work; each function takes one figure."""
