"""Words, pages and pictures that every result uses."""
