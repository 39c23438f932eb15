from functools import lru_cache

import numpy as np
from torch.utils.data import Dataset

from ..config import CFG, DATA
from .neighbors import neighbor_list, random_rotation
from .xyz import read_xyz


@lru_cache(maxsize=None)
def frames_of(split):
    return tuple(read_xyz(DATA / f"{split}.xyz"))


@lru_cache(maxsize=None)
def energy_statistics():
    """Mean and deviation of the energy per atom over the training molecules."""
    per_atom = np.array([f.energy / len(f.symbols) for f in frames_of("train")])
    return per_atom.mean(), per_atom.std(ddof=1)


def featurize(frame, rotation=None):
    positions = frame.positions
    if rotation is not None:
        positions = positions @ rotation.T
    edges, vectors = neighbor_list(positions, CFG.data.cutoff)
    species = [CFG.data.species.index(s) for s in frame.symbols]
    return {
        "species": np.array(species, dtype=np.int64),
        "edges": edges,
        "vectors": vectors.astype(np.float32),
    }


class MoleculeDataset(Dataset):
    def __init__(self, split):
        self.split = split
        self.frames = frames_of(split)
        self.mean, self.std = energy_statistics()

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, index):
        frame = self.frames[index]
        rotation = None
        forces = frame.forces
        if self.split == "train":
            rotation = random_rotation(
                np.random.default_rng(CFG.data.rotate_seed + 1000 * index)
            )
            forces = forces @ rotation.T
        sample = featurize(frame, rotation)
        n = len(frame.symbols)
        sample["energy"] = np.float32((frame.energy - n * self.mean) / self.std)
        sample["forces"] = (forces / self.std).astype(np.float32)
        return sample
