"""Layers whose attributes and weights mean something else in Paddle.

In: what the program's expressions stand for. Out: edits where weights are read, written, set, shared or turned.
"""
