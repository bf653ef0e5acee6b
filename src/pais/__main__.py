"""``python -m pais``: the command line without its script."""

from pais.cli import main

main()
