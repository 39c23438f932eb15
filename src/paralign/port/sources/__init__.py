"""Source files and notebooks as text and trees, edited by places.

In: files. Out: text, the trees of what can be parsed, text with edits made.
"""
