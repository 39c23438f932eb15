"""The loss, gradients and updates: training steps, and parts of them.

In: a session, its batches and its optimizer. Out: losses, gradients, updates, states after each step; what an interruption changes.
"""
