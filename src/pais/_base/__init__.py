"""Tools that know nothing of privacy or data: arithmetic, root finding, argument checks, random bits, threads."""
