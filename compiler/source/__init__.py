"""Reads sources: YAML and JSON with positions, scalars, the tree, and the YAML writer."""
