"""The connection to the server: event stream, result delivery, backoff, credentials."""
