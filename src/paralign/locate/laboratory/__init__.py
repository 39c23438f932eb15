"""Run the sides again: watched, or with the reference's values put in place.

In: a context, which records. Out: graphs of one pass, and values of the reference on demand.
"""
