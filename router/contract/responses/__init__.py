"""What the contract changes in responses: bodies, streams, usage and errors of engines."""
