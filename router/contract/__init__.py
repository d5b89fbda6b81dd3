"""What a contract means: pure functions from a request to a decision. Opens nothing, reads no clock."""
