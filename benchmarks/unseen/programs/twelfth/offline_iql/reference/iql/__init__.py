"""Implicit Q-learning on recorded rollouts (offline actor-critic)."""
from . import networks  # noqa: F401  (fills the registry)
