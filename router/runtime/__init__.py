"""What the process runs on: the event loop, the CPU executor, semaphores, shared memory, process ids and files."""
