"""What the router tells of itself: its log, its access log, metrics and traces."""
