"""Why an update differs: which terms explain it, and where the program sets them.

In: recorded steps of both optimizers. Out: differences in words, with the line.
"""
