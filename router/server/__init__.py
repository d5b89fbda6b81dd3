"""The HTTP server (downstream): arbiter, workers, connections, requests, responses and disconnects."""
