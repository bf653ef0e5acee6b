"""Tools that do not depend on privacy or data: arithmetic, root finding, argument checks, random bits, threads."""
