"""One pass of each side as a graph of values, and which values agree.

In: two captures of operations. Out: a judgement: right and wrong values, counterparts, and the lines behind them.
"""
