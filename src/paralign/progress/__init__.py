"""How far a port has come: what stages left behind, the guide's steps and checkpoints, and the documents about them."""
