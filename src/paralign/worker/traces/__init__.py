"""The way of a value through the user's own lines.

In: a sample, or numbers that a side computes alone. Out: each step with what it was given and what it made.
"""
