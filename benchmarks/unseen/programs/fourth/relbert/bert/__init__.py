from .config import BertConfig
from .model import RelativeBertForMaskedLM

__all__ = ["BertConfig", "RelativeBertForMaskedLM"]
