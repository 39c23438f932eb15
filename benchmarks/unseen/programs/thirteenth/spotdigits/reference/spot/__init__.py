from .config import load_config
from .detector import SpotDet

__all__ = ["SpotDet", "load_config"]
