"""What a contract means for a request: read from its sections as the language documents them, not by the router's code.

`profilec verify` holds answers against it, so a router that misreads a contract is found out. A test holds it against
the router's own `decide` for every preset.
"""
