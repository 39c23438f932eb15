"""Whole trainings, and what they cost.

In: a side's ``train(log)`` or its loop's parts. Out: curves, what is not finite first; memory and seconds a step or batch.
"""
