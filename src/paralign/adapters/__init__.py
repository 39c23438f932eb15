"""The frameworks, each in one file; the only places that import one."""
