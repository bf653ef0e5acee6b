"""Speed and memory over rows in files: passes, threads, size, the command line, Spark."""
