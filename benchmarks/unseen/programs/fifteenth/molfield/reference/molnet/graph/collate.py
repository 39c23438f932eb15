import numpy as np
import torch


def collate_graphs(samples):
    sizes = [len(s["species"]) for s in samples]
    starts = np.cumsum([0] + sizes[:-1])
    return {
        "species": torch.from_numpy(np.concatenate([s["species"] for s in samples])),
        "edges": torch.from_numpy(
            np.concatenate([s["edges"] + o for s, o in zip(samples, starts)], axis=1)
        ),
        "vectors": torch.from_numpy(np.concatenate([s["vectors"] for s in samples])),
        "graph": torch.repeat_interleave(
            torch.arange(len(samples)), torch.tensor(sizes)
        ),
        "sizes": torch.tensor(sizes),
    }


def collate(samples):
    graph = collate_graphs(samples)
    labels = {
        "energy": torch.from_numpy(np.stack([s["energy"] for s in samples])),
        "forces": torch.from_numpy(np.concatenate([s["forces"] for s in samples])),
        "sizes": graph["sizes"],
    }
    return graph, labels
