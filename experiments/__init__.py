"""Studies that measure the method on synthetic or public data; not part of the installed package."""
