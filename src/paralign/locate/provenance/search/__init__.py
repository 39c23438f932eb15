"""From a wrong value back to the first expression that is wrong of right operands.

In: two expressions and what the reference has. Out: the expression to blame, or none.
"""
