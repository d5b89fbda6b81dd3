"""Foundations of a process: event loop, CPU executor, semaphore, shared memory, process id and files."""
