"""The user's modules, rewritten on import so that each expression tells its value.

In: source, and a recorder. Out: modules that note what their expressions, calls and containers made.
"""
