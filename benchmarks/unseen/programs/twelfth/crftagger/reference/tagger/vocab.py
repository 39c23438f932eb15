import re

PAD, UNK = "<pad>", "<unk>"


class Vocabulary:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.items = [line.rstrip("\n") for line in f]
        self.index = {item: i for i, item in enumerate(self.items)}

    def __len__(self):
        return len(self.items)

    def __getitem__(self, item):
        return self.index.get(item, self.index.get(UNK))

    @property
    def pad(self):
        return self.index[PAD]


def normalise(word, lowercase=True):
    word = word.lower() if lowercase else word
    return re.sub(r"\d", "0", word)
