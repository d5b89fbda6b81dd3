"""Clients: their connections, what they send and whether they are still there."""
