"""The compiler: resolves a profile written in YAML into one validated, frozen JSON artifact."""
