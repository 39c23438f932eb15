import numpy as np
import torch

from .features import SR, log_mel

ALPHABET = "_abcdefg "          # index 0 is the blank
WORDS = ["bad", "cab", "dead face", "egg", "a bee", "fade", "gag", "decade"]


def synth(text, seed):
    """every letter is a chord of two tones with a soft attack; the blank word separator is silence"""
    rng = np.random.RandomState(seed)
    parts = []
    for ch in text:
        k = ALPHABET.index(ch)
        n = 640 + 80 * rng.randint(0, 3)
        t = np.arange(n) / SR
        env = np.minimum(1.0, np.arange(n) / 160.0)
        tone = 0.0 if ch == " " else np.sin(2 * np.pi * (200 + 130 * k) * t) + 0.4 * np.sin(2 * np.pi * (900 + 210 * k) * t)
        parts.append(env * tone + 0.01 * rng.randn(n))
    return np.concatenate(parts)


class ToySpeech(torch.utils.data.Dataset):
    def __len__(self):
        return len(WORDS)

    def __getitem__(self, i):
        feats = log_mel(synth(WORDS[i], 100 + i)).astype(np.float32)
        return torch.from_numpy(feats), torch.tensor([ALPHABET.index(c) for c in WORDS[i]])
