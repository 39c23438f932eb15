"""Which expression of the user's own Python made each value, of which others.

It is recorded while the user's modules run once more.
"""
