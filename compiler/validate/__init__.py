"""Validates a profile: against the schema, between values, and warnings."""
