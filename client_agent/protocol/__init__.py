"""Messages, states, routes and SSE decoding: what both sides say to each other. No I/O."""
