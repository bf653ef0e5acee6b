"""Noise laws, sums on a lattice, and the base class of mechanisms."""
