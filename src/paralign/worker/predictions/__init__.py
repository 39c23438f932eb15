"""The program that users run: one prediction, an exported program.

In: a path for ``predict``, or a program's file. Out: the outputs, and every step from the path to the result.
"""
