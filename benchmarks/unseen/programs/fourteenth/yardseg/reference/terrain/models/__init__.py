from . import aspp, backbone
from .segmentor import Segmentor
