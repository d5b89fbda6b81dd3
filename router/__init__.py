"""The router: loads one frozen artifact and enforces its contract in front of inference engines."""
