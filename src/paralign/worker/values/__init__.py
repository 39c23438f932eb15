"""Nested values, their fingerprints, and the tensors of files.

In: what functions of a side give, or ranges of files. Out: named leaves, fingerprints that recur, masks, tensors.
"""
