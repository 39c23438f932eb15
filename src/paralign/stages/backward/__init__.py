"""The stage ``backward``: gradients and weights over a few training steps."""
