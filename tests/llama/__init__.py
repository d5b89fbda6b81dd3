"""A real llama.cpp server on a tiny model of our own making."""
