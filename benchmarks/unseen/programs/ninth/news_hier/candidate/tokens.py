"""Tokeniser and vocabulary, framework-free."""
import re

SPECIALS = ("<pad>", "<unk>")
PAD_ID, UNK_ID = range(2)
NUMBER = "<num>"

_split = re.compile(r"(?<=[.!?])\s+").split
_tokens = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+|[.,!?]").findall


def split_sentences(text):
    return [piece for piece in _split(text.strip()) if piece]


def tokenize(sentence):
    tokens = _tokens(sentence.lower())
    return [NUMBER if token.isdigit() else token for token in tokens]


def build_vocabulary(texts, min_count, max_size):
    """word -> number; the most frequent words first, equally frequent ones by alphabet."""
    frequency = {}
    for text in texts:
        for sentence in split_sentences(text):
            for token in tokenize(sentence):
                frequency[token] = frequency.get(token, 0) + 1
    ranked = sorted(frequency.items(), key=lambda item: (-item[1], item[0]))
    frequent = [word for word, times in ranked if times >= min_count]
    room = max_size - len(SPECIALS)
    return {word: number for number, word in enumerate(SPECIALS + tuple(frequent[:room]))}


def numericalize(sentence, vocabulary):
    return [vocabulary.get(token, UNK_ID) for token in tokenize(sentence)]
