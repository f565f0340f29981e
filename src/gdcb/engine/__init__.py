"""Where tasks run: this process, a process pool, Ray."""
