"""What a side's program computed, as a graph of expressions with their values.

In: a capture of the task ``provenance``. Out: expressions, and which values of one side the other has.
"""
