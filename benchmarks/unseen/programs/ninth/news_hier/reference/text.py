"""From raw text to lists of token numbers."""
import re
from collections import Counter

PAD, UNK, NUM = "<pad>", "<unk>", "<num>"
SENTENCE = re.compile(r"(?<=[.!?])\s+")
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+|[.,!?]")


def sentences(text):
    return [part for part in SENTENCE.split(text.strip()) if part]


def words(sentence):
    return [NUM if token.isdigit() else token for token in WORD.findall(sentence.lower())]


class Vocabulary:
    def __init__(self, documents, min_count, size):
        counts = Counter()
        for document in documents:
            for sentence in sentences(document):
                counts.update(words(sentence))
        kept = sorted((word for word, count in counts.items() if count >= min_count), key=lambda word: (-counts[word], word))
        self.words = [PAD, UNK] + kept[: size - 2]
        self.index = {word: number for number, word in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def encode(self, sentence):
        unknown = self.index[UNK]
        return [self.index.get(word, unknown) for word in words(sentence)]
