"""Which expression of the user's own Python made each value, of which others: recorded while the user's modules run once more."""
