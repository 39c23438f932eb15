"""Run the sides again: watched operation by operation, with values of the reference put in place of the candidate's.

In: a context, which records. Out: graphs of one pass, and values of the reference on demand.
"""
