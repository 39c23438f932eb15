"""Which expression of the user's own Python made each value, of which others.

In: a pass, a training or an evaluation, run once more with the user's modules rewritten. Out: the recorded expressions.
"""
