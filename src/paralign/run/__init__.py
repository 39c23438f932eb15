"""Projects and the sides' runs.

Read paralign.toml, start workers, have captures recorded and reused.
"""
