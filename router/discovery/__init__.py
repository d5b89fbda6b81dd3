"""Finds engines by DNS: the resolver, what it found last, and the set that follows from both."""
