"""The command line `pais`: the same words as the API."""

from pais.cli.app import app, main

__all__ = ["app", "main"]
