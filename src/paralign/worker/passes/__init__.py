"""A forward pass, whole or block by block, and calls made again in float64.

In: a session and its inputs. Out: outputs of the model and of its modules, recorded in one or several precisions.
"""
