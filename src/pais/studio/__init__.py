"""A local page that leads from a file to a private report. It is loaded by the command `pais studio` alone."""
