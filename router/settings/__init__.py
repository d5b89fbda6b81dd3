"""The settings: environment variables, how each is parsed, what is wrong with them, and their table."""
