"""Discovery of engines by DNS: the resolver, and the set of engines from its results."""
