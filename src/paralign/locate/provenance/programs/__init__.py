"""Which expression of a recorded program is at fault: a step, a data set and so on.

In: what is known to be wrong of it. Out: the expression to blame, written into the divergence.
"""
