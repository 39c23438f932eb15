"""In place of an index of all layers: those that ConvNeXt takes, from timm's own files."""

from .adaptive_avgmax_pool import SelectAdaptivePool2d
from .classifier import ClassifierHead
from .drop import DropPath
from .mlp import ConvMlp, Mlp
from .weight_init import trunc_normal_
