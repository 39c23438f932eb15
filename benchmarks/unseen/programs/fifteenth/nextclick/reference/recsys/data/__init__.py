from .clicklog import ClickLog
from .dataset import SequenceDataset, collate

__all__ = ["ClickLog", "SequenceDataset", "collate"]
