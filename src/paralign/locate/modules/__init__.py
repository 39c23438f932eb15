"""The fallback where operations cannot be watched: the first module call that goes wrong.

In: captures of module calls. Out: a divergence, or none.
"""
