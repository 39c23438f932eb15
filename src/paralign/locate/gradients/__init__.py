"""Where the backward passes of two runs part.

In: a judgement with gradients. Out: faults of gradients, and the line of each.
"""
