from .photos import PhotoMasks
from .transforms import build_transforms
