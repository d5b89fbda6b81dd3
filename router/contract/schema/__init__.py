"""The contract's types as the artifact holds them."""
