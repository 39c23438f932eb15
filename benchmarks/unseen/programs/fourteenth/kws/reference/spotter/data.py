import csv
import wave as wavfile

import numpy as np
import torch
from torch.utils.data import Dataset

from .config import DATA_ROOT
from .frontend.augment import shift_wave


def read_words():
    return (DATA_ROOT / "words.txt").read_text().split()


def load_clip(path, audio):
    with wavfile.open(str(path), "rb") as fh:
        assert fh.getframerate() == audio.sample_rate and fh.getsampwidth() == 2
        raw = fh.readframes(fh.getnframes())
    samples = torch.from_numpy(np.frombuffer(raw, dtype="<i2").astype(np.float32) / 32768.0)
    return fit_length(samples, audio.clip_samples)


def fit_length(samples, length):
    extra = length - samples.numel()
    if extra <= 0:
        start = -extra // 2
        return samples[start:start + length]
    left = extra // 2
    out = torch.zeros(length)
    out[left:left + samples.numel()] = samples
    return out


class KeywordClips(Dataset):
    def __init__(self, split, transform, audio, max_shift=0):
        self.transform, self.audio, self.max_shift = transform, audio, max_shift
        words = {w: i for i, w in enumerate(read_words())}
        with open(DATA_ROOT / "manifest.csv", newline="") as fh:
            rows = [r for r in csv.DictReader(fh) if r["split"] == split]
        self.items = [(DATA_ROOT / r["path"], words[r["word"]]) for r in rows]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        path, label = self.items[i]
        wave = load_clip(path, self.audio)
        if self.max_shift:
            wave = shift_wave(wave, self.max_shift)
        return self.transform(wave), label


def pad_collate(batch):
    feats, labels = zip(*batch)
    return torch.stack(feats), torch.tensor(labels, dtype=torch.long)
