from .settings import SETTINGS

__all__ = ["SETTINGS"]
