"""The first expression of the user's Python that is wrong although its operands are right.

In: what is wrong, and both sides' programs. Out: the expression, and why it is told to be at fault.
"""
