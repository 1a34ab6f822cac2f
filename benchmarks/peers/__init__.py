"""What a user might pick instead, driven over its own protocol. Installed by name into a scratch directory."""
