"""The stage ``optimizer``: the whole schedule, parameter groups, one update."""
