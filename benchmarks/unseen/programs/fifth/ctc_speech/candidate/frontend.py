import numpy as np
from paddle.io import Dataset

RATE = 8000
LETTERS = ["<blank>", "a", "b", "c", "d", "e", "f", "g", " "]
SENTENCES = ("bad", "cab", "dead face", "egg", "a bee", "fade", "gag", "decade")


class LogMel:
    def __init__(self, bins=20, nfft=256, low=60.0, high=3800.0, win=200, hop=80):
        self.win, self.hop, self.nfft = win, hop, nfft
        self.window = 0.5 * (1.0 - np.cos(2.0 * np.pi * np.arange(win) / win))
        mel = lambda hz: 2595.0 * np.log10(1.0 + hz / 700.0)
        points = 700.0 * (10.0 ** (np.linspace(mel(low), mel(high), bins + 2) / 2595.0) - 1.0)
        grid = np.arange(nfft // 2 + 1) * RATE / nfft
        rise = (grid[:, None] - points[None, :-2]) / np.diff(points)[None, :-1]
        fall = (points[None, 2:] - grid[:, None]) / np.diff(points)[None, 1:]
        area = 2.0 / (points[2:] - points[:-2])
        self.bank = np.clip(np.minimum(rise, fall), 0.0, None) * area            # [freq, mel]

    def __call__(self, signal):
        emphasised = signal.copy()
        emphasised[1:] -= 0.97 * signal[:-1]
        count = (len(signal) - self.win) // self.hop + 1
        frames = np.stack([emphasised[k * self.hop:k * self.hop + self.win] for k in range(count)])
        power = np.abs(np.fft.rfft(frames * self.window, n=self.nfft, axis=1)) ** 2
        energy = np.log(np.clip(power.dot(self.bank), 1e-10, None))
        centred = energy - energy.mean(axis=0, keepdims=True)
        return (centred / (energy.std(axis=0, keepdims=True) + 1e-5)).astype("float32")


class SpokenLetters(Dataset):
    def __init__(self):
        super().__init__()
        self.extract = LogMel()

    def render(self, sentence, seed):
        rng, pieces = np.random.RandomState(seed), []
        for letter in sentence:
            size = 640 + 80 * rng.randint(0, 3)
            k, clock = LETTERS.index(letter), np.arange(size) / RATE
            tone = np.zeros(size)
            if letter != " ":
                tone = np.sin(2 * np.pi * (200 + 130 * k) * clock) + 0.4 * np.sin(2 * np.pi * (900 + 210 * k) * clock)
            attack = np.clip(np.arange(size) / 160.0, None, 1.0)
            pieces.append(tone * attack + 0.01 * rng.randn(size))
        return np.concatenate(pieces)

    def __len__(self):
        return len(SENTENCES)

    def __getitem__(self, index):
        sentence = SENTENCES[index]
        target = np.array([LETTERS.index(c) for c in sentence], dtype="int64")
        return self.extract(self.render(sentence, 100 + index)), target
