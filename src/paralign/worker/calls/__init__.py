"""Calls of the user's own functions: recorded with arguments, results and effects.

In: a model or a program under way. Out: its calls as plain JSON with tensors beside, and what each changed beside its result.
"""
