from .collate import collate
from .dataset import MoleculeDataset

__all__ = ["collate", "MoleculeDataset"]
