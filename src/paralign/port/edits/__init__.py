"""Edits at the places of a program, and the ledger that says what became of each.

In: plans, and parts of tensors that are changed in place. Out: edits of the text, notes, rows of the ledger.
"""
