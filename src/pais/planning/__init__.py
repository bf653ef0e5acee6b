"""Plans: everything that is decided before a row is read."""
