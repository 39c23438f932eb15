"""A fault undone by way of trial.

Edits of one statement are applied to a copy of the candidate, each checked again.
"""
