from .masking import random_order
from .pictures import PictureFolder
from .transforms import Compose, build_transform

__all__ = ["random_order", "PictureFolder", "Compose", "build_transform"]
