"""The stage ``init``: the laws that initial weights are drawn from."""
