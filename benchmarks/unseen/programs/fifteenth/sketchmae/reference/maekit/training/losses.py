def patchify(images, patch):
    b, c, h, w = images.shape
    gh, gw = h // patch, w // patch
    x = images.reshape(b, c, gh, patch, gw, patch)
    return x.permute(0, 2, 4, 3, 5, 1).reshape(b, gh * gw, patch * patch * c)


def unpatchify(x, patch):
    b, n, _ = x.shape
    g = int(n**0.5)
    x = x.reshape(b, g, g, patch, patch, 3)
    return x.permute(0, 5, 1, 3, 2, 4).reshape(b, 3, g * patch, g * patch)


def patch_statistics(target, eps=1e-6):
    mean = target.mean(dim=-1, keepdim=True)
    std = (target.var(dim=-1, keepdim=True) + eps).sqrt()
    return mean, std


class MaskedPixelLoss:
    """Mean squared error over the hidden patches, each normalised by itself."""

    def __init__(self, patch):
        self.patch = patch

    def __call__(self, pred, labels):
        target = patchify(labels["image"], self.patch)
        mean, std = patch_statistics(target)
        error = (pred - (target - mean) / std).pow(2).mean(dim=-1)
        mask = labels["mask"]
        return (error * mask).sum() / mask.sum()
