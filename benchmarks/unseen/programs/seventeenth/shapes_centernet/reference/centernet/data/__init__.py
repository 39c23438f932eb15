from .shapes import EpochSampler, ShapesDataset

__all__ = ["EpochSampler", "ShapesDataset"]
