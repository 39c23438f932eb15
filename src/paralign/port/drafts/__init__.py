"""From source to a port: converted files, and a project ready for a check.

In: files or notebooks. Out: converted sources with their ledger, a project's folder; edits by hand are kept.
"""
