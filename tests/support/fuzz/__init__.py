"""Fuzzing: files and arguments that are nearly right, and what the package makes of them."""
