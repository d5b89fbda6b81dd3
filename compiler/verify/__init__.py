"""`profilec verify`: whether an endpoint keeps a contract, shown by requests that are derived from it."""
