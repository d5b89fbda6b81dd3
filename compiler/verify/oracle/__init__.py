"""The meaning of a contract for a request, implemented from the language's documentation, without the router's code.

`profilec verify` compares responses with it, which reveals a router that misreads a contract. A test compares it with
the router's own `decide` for every preset.
"""
