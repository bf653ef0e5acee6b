"""``python -m pais.cli``: the command line without its script."""

from pais.cli.app import main

main()
