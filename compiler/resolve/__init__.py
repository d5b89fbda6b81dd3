"""Selects the source and resolves presets, `extends` and overrides, with the origin of each value."""
