"""A soak: half load for minutes while engines die and clients leave, with every answer judged."""
