"""`profilec probe`: the contract of a live endpoint, learnt by questions and written as a profile."""
