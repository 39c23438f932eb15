"""The stage ``forward``: the outputs of one pass, and where they part."""
