"""Which engine gets a request: policies, the sticky key and the in-flight table. Pure, but for the shared table."""
