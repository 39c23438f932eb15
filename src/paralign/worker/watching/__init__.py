"""Passes and steps with every operation watched.

In: a session, and what the other side's operations drew or made. Out: each operation with its values' fingerprints and lines.
"""
