"""The theory: how sampling changes a privacy loss, which rules keep it bounded, and what the worst case is."""
