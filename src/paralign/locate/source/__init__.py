"""What source code says around a line; it knows files and syntax trees, and no graph.

In: ``file:line``. Out: functions, statements, bindings, arguments of calls.
"""
