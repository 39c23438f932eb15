"""In place of data loading: the constants alone."""

from .constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
