"""A side, loaded and ready: its functions, its model, its inputs.

In: a side's module and its framework's adapter. Out: the session that every task is given, and the state of its model.
"""
