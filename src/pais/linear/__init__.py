"""Private linear regression."""
