"""Our router beside other gateways on the same machine, in the same minutes: `python -m tests.bench.peers`."""
