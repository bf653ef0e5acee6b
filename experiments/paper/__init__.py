"""Reproduction of the paper's study: its data sets, its table of them, its comparisons."""
