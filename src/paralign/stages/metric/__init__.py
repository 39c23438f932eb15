"""The stage ``metric``: the figure that an evaluation gives."""
