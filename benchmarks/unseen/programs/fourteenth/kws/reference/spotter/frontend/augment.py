import torch


class FrequencyMask:
    def __init__(self, width):
        self.width = width

    def __call__(self, feats):
        bins = feats.shape[0]
        w = int(torch.randint(0, self.width + 1, (1,)))
        start = int(torch.randint(0, bins - w + 1, (1,)))
        feats = feats.clone()
        feats[start:start + w] = 0.0
        return feats


class TimeMask:
    def __init__(self, width):
        self.width = width

    def __call__(self, feats):
        frames = feats.shape[1]
        w = int(torch.randint(0, self.width + 1, (1,)))
        start = int(torch.randint(0, frames - w + 1, (1,)))
        feats = feats.clone()
        feats[:, start:start + w] = 0.0
        return feats


def shift_wave(wave, limit):
    n = int(torch.randint(-limit, limit + 1, (1,)))
    out = torch.zeros_like(wave)
    if n > 0:
        out[n:] = wave[:-n]
    elif n < 0:
        out[:n] = wave[-n:]
    else:
        out.copy_(wave)
    return out
