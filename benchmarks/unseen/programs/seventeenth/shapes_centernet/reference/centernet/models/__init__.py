from .detector import CenterNet

__all__ = ["CenterNet"]
