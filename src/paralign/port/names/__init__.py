"""What each name and expression of a program stands for; nothing is imported or run.

In: a program's tree. Out: callables, values, owners of methods, element types; what binds a name.
"""
