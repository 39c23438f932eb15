import json
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "data"
PAD, BOS, EOS, UNK = range(4)


class Vocabulary:
    def __init__(self, path=DATA / "vocabulary.json"):
        content = json.loads(path.read_text())
        self.symbols = content["specials"] + content["characters"]
        self.index = {symbol: i for i, symbol in enumerate(self.symbols)}

    def __len__(self):
        return len(self.symbols)

    def encode(self, text):
        return [self.index.get(character, UNK) for character in text]

    def decode(self, ids):
        return "".join(self.symbols[i] for i in ids if i not in (PAD, BOS, EOS))


def normalise(text):
    return " ".join(text.lower().split())


def load_config():
    return json.loads((DATA / "config.json").read_text())
