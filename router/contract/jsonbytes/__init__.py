"""JSON as bytes: parse, find members, scan, splice, numbers as they were written."""
