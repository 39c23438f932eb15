"""Clips cut from tapes, in numpy only."""
import json
import wave

import numpy as np
import pandas as pd
from paddle.io import Dataset

from conf import AUDIO, DATA, TRAIN


def hear(path):
    with wave.open(str(path), "rb") as w:
        raw = w.readframes(w.getnframes())
    return np.frombuffer(raw, "uint8") / 128.0 - 1.0


def mel_bank():
    to_mel = lambda f: 2595.0 * np.log10(1.0 + np.asarray(f) / 700.0)  # noqa: E731
    low, high = to_mel(AUDIO["range"])
    edges = 700.0 * (10.0 ** (np.linspace(low, high, AUDIO["bands"] + 2) / 2595.0) - 1.0)
    freq = np.fft.rfftfreq(AUDIO["fft"], 1.0 / AUDIO["rate"])[:, None]
    left, mid, right = edges[:-2], edges[1:-1], edges[2:]
    rise, fall = (freq - left) / (mid - left), (right - freq) / (right - mid)
    return np.maximum(np.minimum(rise, fall), 0.0) * (200.0 / (right - left))


def hann(n):
    """Periodic, as for spectra."""
    return np.hanning(n + 1)[:-1]


BANK = mel_bank()


def log_mel(sound):
    fft, hop = AUDIO["fft"], AUDIO["hop"]
    sharp = sound.copy()
    sharp[1:] -= AUDIO["preemphasis"] * sound[:-1]
    margin = (fft - AUDIO["window"]) // 2
    window = np.pad(hann(AUDIO["window"]), margin)
    wide = np.pad(sharp, fft // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(wide, fft)[::hop]
    power = np.abs(np.fft.rfft(frames * window, axis=-1)) ** 2
    out = np.log(power @ BANK + AUDIO["floor"])
    return out - out.mean()


def padded(frames):
    size = AUDIO["frames"]
    frames = frames[:size]
    return np.pad(frames, [(0, size - len(frames)), (0, 0)]).astype("float32"), len(frames)


def encode(notes):
    notes = np.asarray(notes, dtype="float64")[:AUDIO["longest"]]
    reach = AUDIO["reach"]
    steps = np.diff(notes[:, 0], prepend=notes[0, 0])
    pitch = np.clip(steps, -reach, reach) + reach + 1
    length = np.clip(np.round(2 * np.log2(notes[:, 1])), -3, 3) + 4
    room = (0, AUDIO["longest"] - len(notes))
    return np.pad(pitch, room).astype("int64"), np.pad(length, room).astype("int64"), len(notes)


def songbook():
    with open(DATA / "tunes.json") as f:
        return json.load(f)["tunes"]


class Hums(Dataset):
    def __init__(self, split):
        super().__init__()
        cues = pd.read_csv(DATA / "cues.csv")
        self.cues = cues[cues["split"] == split].to_dict("records")
        self.train = split == "train"
        self.tapes = {name: hear(DATA / name) for name in {c["tape"] for c in self.cues}}
        book = songbook()
        self.number = {tune["name"]: i for i, tune in enumerate(book)}
        self.tokens = [encode(tune["notes"]) for tune in book]

    def __len__(self):
        return len(self.cues)

    def spoiled(self, sound, clip):
        """Noise on the sound and a blank over some frames."""
        rng = np.random.default_rng(31000 + clip)
        frames = log_mel(sound + AUDIO["noise"] * rng.standard_normal(len(sound)))
        blank = AUDIO["blank"]
        at = rng.integers(0, len(frames) - blank, endpoint=True)
        frames[at:at + blank] = 0
        return frames

    def __getitem__(self, index):
        cue = self.cues[index]
        sound = self.tapes[cue["tape"]][cue["start"]:cue["stop"]]
        frames = self.spoiled(sound, cue["clip"]) if self.train else log_mel(sound)
        mel, n = padded(frames)
        tune = self.number[cue["tune"]]
        pitch, length, notes = self.tokens[tune]
        key = (cue["key"] - TRAIN["loss"]["key_mean"]) / TRAIN["loss"]["key_scale"]
        labels = {"tune": np.int64(tune), "key": np.float32(key)}
        return mel, np.int64(n), pitch, length, np.int64(notes), labels
