import numpy as np
import torch


def random_order(num_patches, rng):
    """Patches in the order of a random number each; the first ones stay visible."""
    noise = rng.random(num_patches)
    return torch.from_numpy(np.argsort(noise, kind="stable"))


def mask_from_order(order, mask_ratio):
    n = order.shape[-1]
    keep = int(n * (1 - mask_ratio))
    mask = torch.ones(n)
    mask[order[:keep]] = 0
    return mask
