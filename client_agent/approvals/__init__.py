"""Open questions, and the channels that answer them."""
