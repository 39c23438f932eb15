from . import hybrid  # noqa: F401  (fills the registry)
from .registry import MODELS, create

__all__ = ["MODELS", "create"]
