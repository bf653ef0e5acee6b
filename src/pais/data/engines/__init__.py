"""Where the rows are: memory, files, streams, Spark."""
