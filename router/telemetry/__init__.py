"""The router's log, access log, metrics and traces."""
