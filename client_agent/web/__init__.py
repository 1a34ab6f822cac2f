"""The page's static files, served by `local_api`."""
