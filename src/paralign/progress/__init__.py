"""How far a port has come.

What stages left behind, the guide's steps and checkpoints, and the documents about them.
"""
