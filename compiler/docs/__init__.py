"""Generated documentation: the reference, the tables of presets and the JSON Schemas."""
