"""Converted classes and functions, held against their originals.

In: a conversion, and what calls of both sides gave. Out: what is proven of each definition, and of each line of the ledger.
"""
