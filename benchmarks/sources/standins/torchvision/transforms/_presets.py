"""In place of the transforms of pretrained weights: names only, no network needs more."""

from enum import Enum


class InterpolationMode(Enum):
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


class ImageClassification:
    pass
