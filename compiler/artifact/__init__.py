"""Turns a validated profile into an artifact, and an artifact back into a profile."""
