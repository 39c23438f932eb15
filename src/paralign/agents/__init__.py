"""Tools for coding agents: paralign's commands in one folder (``paralign mcp``).

Their answers have bounded length.
"""
