"""The daemon's own door: socket for the CLI, loopback page for the browser."""
