"""Tapes, mel spectra and tunes for the PyTorch side."""
import csv
import json
import math
import tomllib
import wave
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).resolve().parent
DATA = FOLDER.parent / "data"
CONF = tomllib.loads((FOLDER / "humming.toml").read_text())
A, S = CONF["audio"], CONF["symbols"]


def read_wav(path):
    with wave.open(str(path)) as w:
        raw = np.frombuffer(w.readframes(w.getnframes()), dtype=np.uint8)
    return (raw.astype(np.float64) - 128.0) / 128.0


def mel(f):
    return 2595.0 * math.log10(1.0 + f / 700.0)


def filters():
    bins = A["fft"] // 2 + 1
    m = np.linspace(mel(A["low"]), mel(A["high"]), A["bands"] + 2)
    edges = 700.0 * (10.0 ** (m / 2595.0) - 1.0)
    freq = np.arange(bins) * A["rate"] / A["fft"]
    bank = np.zeros((A["bands"], bins))
    for b in range(A["bands"]):
        lo, mid, hi = edges[b:b + 3]
        for k in range(bins):
            bank[b, k] = max(0.0, min((freq[k] - lo) / (mid - lo), (hi - freq[k]) / (hi - mid)))
        bank[b] *= 2.0 / (hi - lo) * 100.0
    return torch.from_numpy(bank)


BANK = filters()


def spectrum(sound):
    """Log mel spectrum, frames by bands, its mean over the clip taken away."""
    x = torch.from_numpy(sound)
    x = torch.cat([x[:1], x[1:] - A["preemphasis"] * x[:-1]])
    s = torch.stft(x, n_fft=A["fft"], hop_length=A["hop"], win_length=A["window"],
                   window=torch.hann_window(A["window"], dtype=torch.float64),
                   center=True, pad_mode="reflect", return_complex=True)
    m = torch.log(BANK @ s.abs().pow(2) + A["floor"]).T
    return (m - m.mean()).numpy()


def fit(frames):
    """Cut or filled with zeros to the fixed number of frames; also the true number."""
    n = min(len(frames), A["frames"])
    out = np.zeros((A["frames"], A["bands"]), dtype=np.float32)
    out[:n] = frames[:n]
    return out, n


def duration_token(beats):
    return int(np.clip(round(2 * math.log2(beats)), -3, 3)) + 4


def tune_tokens(notes):
    first = notes[0][0]
    pitch = np.zeros(S["longest"], dtype=np.int64)
    length = np.zeros(S["longest"], dtype=np.int64)
    for i, (p, d) in enumerate(notes[:S["longest"]]):
        step = p - first if i == 0 else p - notes[i - 1][0]
        pitch[i] = min(max(step, -S["reach"]), S["reach"]) + S["reach"] + 1
        length[i] = duration_token(d)
    return pitch, length, min(len(notes), S["longest"])


def tunes():
    return json.loads((DATA / "tunes.json").read_text())["tunes"]


class Hums(torch.utils.data.Dataset):
    def __init__(self, split):
        self.split = split
        with open(DATA / "cues.csv", newline="") as f:
            self.cues = [c for c in csv.DictReader(f) if c["split"] == split]
        self.tunes = tunes()
        self.names = [t["name"] for t in self.tunes]
        self.tapes = {}

    def __len__(self):
        return len(self.cues)

    def __getitem__(self, i):
        cue = self.cues[i]
        if cue["tape"] not in self.tapes:
            self.tapes[cue["tape"]] = read_wav(DATA / cue["tape"])
        sound = self.tapes[cue["tape"]][int(cue["start"]):int(cue["stop"])]
        if self.split == "train":
            rng = np.random.default_rng(31000 + int(cue["clip"]))
            sound = sound + A["noise"] * rng.standard_normal(len(sound))
            frames = spectrum(sound)
            at = rng.integers(0, len(frames) - A["blank"] + 1)
            frames[at:at + A["blank"]] = 0.0
        else:
            frames = spectrum(sound)
        frames, n = fit(frames)
        which = self.names.index(cue["tune"])
        pitch, length, notes = tune_tokens(self.tunes[which]["notes"])
        L = CONF["loss"]
        labels = {"tune": torch.tensor(which),
                  "key": torch.tensor((float(cue["key"]) - L["key_mean"]) / L["key_scale"], dtype=torch.float32)}
        return (torch.from_numpy(frames), torch.tensor(n), torch.from_numpy(pitch),
                torch.from_numpy(length), torch.tensor(notes), labels)
