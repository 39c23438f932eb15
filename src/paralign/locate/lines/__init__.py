"""From a fault to the line that a porter has to look at.

In: a fault and its judgement. Out: its kind, the first line, and further ones.
"""
