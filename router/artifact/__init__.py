"""The artifact: its format, how it is read, and its JSON Schema."""
