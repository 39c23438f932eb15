"""Light self-supervised scene flow on point clouds."""
