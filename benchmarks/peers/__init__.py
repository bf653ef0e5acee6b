"""Other packages on the same rows, each in an environment of its own, run by a script without our imports."""
