"""Which expression gave an optimizer or a schedule a wrong setting.

In: both sides' expressions. Out: the expression to blame: of a number, a group, a factor or a time.
"""
