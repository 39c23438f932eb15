"""Batches that both samplers draw with replacement: what both loaders make of the same samples is compared."""

from __future__ import annotations

import pytest
from tests.e2e.written_projects import checked

from paralign.model import ALIGNED, DIVERGED

pytest.importorskip("torch")
pytest.importorskip("paddle")

DATA = """
    import numpy as np

    class Words(Dataset):
        def __init__(self):
            super().__init__()
            random = np.random.default_rng(4)
            self.rows = [random.integers(1, 9, 3 + n % 7) for n in range(26)]

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, index):
            return self.rows[index], index % 5

    def padded(rows):
        width = max(len(words) for words, _ in rows)
        held = np.zeros((len(rows), width), "int64")
        for line, (words, _) in zip(held, rows):
            line[:len(words)] = words
        return tensor(held), tensor(np.array([label for _, label in rows]))

    WEIGHTS = 1.0 + np.arange(26) % 3

    def build_dataset(split):
        return Words()
"""

REFERENCE = (
    """
    import torch
    from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler
    tensor = torch.as_tensor
"""
    + DATA
    + """
    def build_dataloader(split):
        sampler = WeightedRandomSampler(torch.as_tensor(WEIGHTS), 26, replacement=True)
        return DataLoader(Words(), 4, sampler=sampler, collate_fn=padded)
"""
)

PORT = (
    """
    import paddle
    from paddle.io import BatchSampler, DataLoader, Dataset, WeightedRandomSampler
    tensor = paddle.to_tensor
"""
    + DATA
    + """
    def build_dataloader(split):
        batches = BatchSampler(sampler=WeightedRandomSampler(WEIGHTS, 26, replacement=True), batch_size=4)
        return DataLoader(Words(), batch_sampler=batches, collate_fn=padded)
"""
)

MODELS = (
    "    def build_model():\n        return torch.nn.Linear(2, 2)\n",
    "    def build_model():\n        return paddle.nn.Linear(2, 2)\n",
)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("", "", ALIGNED),  # batches of other samples are padded to other lengths
        ("for _, label in rows", "for label in [0] * len(rows)", DIVERGED),
        ("np.zeros((len(rows), width)", "np.ones((len(rows), width)", DIVERGED),
    ],
)
def test_what_both_make_of_the_same_samples(tmp_path, old, new, verdict):
    port = PORT.replace(old, new) if old else PORT
    found = checked(tmp_path, REFERENCE + MODELS[0], port + MODELS[1], "data")
    assert found.verdict == verdict
    assert any("batches of the same samples" in str(each) for each in found.coverage)
