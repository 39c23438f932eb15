"""The stage ``weights``: which tensor of the port is which of the reference's."""
