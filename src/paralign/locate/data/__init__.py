"""The way of one sample on both sides, and the first step of it that goes wrong.

In: traces of both sides. Out: the line, and what turns one array into the other.
"""
