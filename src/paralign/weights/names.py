"""What a module's path says: words of one meaning, numbers, roles."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

#: a word -> what it means; empty for what says nothing
MEANINGS = {
    "query": "q",
    "queries": "q",
    "wq": "q",
    "key": "k",
    "keys": "k",
    "wk": "k",
    "value": "v",
    "values": "v",
    "wv": "v",
    "attention": "attn",
    "attentions": "attn",
    "sa": "attn self",
    "multihead": "attn",
    "mha": "attn",
    "layernorm": "norm",
    "ln": "norm",
    "bn": "norm",
    "batchnorm": "norm",
    "batch": "",
    "layer": "",
    "layers": "",
    "block": "",
    "blocks": "",
    "embeddings": "embed",
    "embedding": "embed",
    "emb": "embed",
    "wte": "word embed",
    "wpe": "position embed",
    "tok": "word",
    "token": "word",
    "pos": "position",
    "positions": "position",
    "positional": "position",
    "types": "type",
    "dense": "fc",
    "linear": "fc",
    "lin": "fc",
    "output": "out",
    "o": "out",
    "wo": "out",
    "proj": "fc",
    "projection": "fc",
    "convolution": "conv",
    "convs": "conv",
    "weight": "",
    "module": "",
    "model": "",
    "features": "",
    "downsample": "short",
    "shortcut": "short",
    "relative": "rel",
    "encoder": "enc",
    "decoder": "dec",
    "bidirectional": "bi",
    "crossattention": "attn cross",
    "pre": "before",
    "post": "after",
    "classifier": "head",
    "heads": "head",
    "wqkv": "q k v",
    "qkv": "q k v",
    "kv": "k v",
}

#: words of which a path holds at most one, and which are never each other
ROLES = (
    frozenset("qkv"),
    frozenset({"gate", "up", "down"}),
    frozenset({"enc", "dec"}),
    frozenset({"before", "after"}),
    frozenset({"word", "position", "type"}),
    frozenset({"cross", "self"}),
)

#: what speaks against paths of contrary roles, and against a role (of a projection) of which only one path speaks
CONTRARY, SILENT = 2.0, 0.5


class Path(NamedTuple):
    """A module's path: its words, its numbers, and numbers that stand alone."""

    words: tuple[str, ...]
    numbers: tuple[int, ...]
    indices: tuple[int, ...]


@lru_cache(maxsize=100_000)
def read(path: str) -> Path:
    """The words and numbers of a path.

    >>> read("encoder.layer.3.attention.self.query")
    Path(words=('enc', 'attn', 'self', 'q'), numbers=(3,), indices=(3,))
    >>> read("layers.3.self_attn.q_proj1")
    Path(words=('self', 'attn', 'q', 'fc'), numbers=(3, 1), indices=(3,))
    """
    words: list[str] = []
    numbers: list[int] = []
    for token in _WORD.findall(path):
        if token.isdecimal():
            numbers.append(int(token))
        else:
            lower = token.lower()
            words += MEANINGS.get(lower, lower).split()
    return Path(tuple(words), tuple(numbers), tuple(int(s) for s in path.split(".") if s.isdecimal()))


def roles(path: str) -> frozenset[str]:
    """Which roles in an attention a path speaks of; more than one for fused projections.

    >>> sorted(roles("attn.c_attn")), sorted(roles("self_attn.q_proj")), sorted(roles("attn.qkv"))
    ([], ['q'], ['k', 'q', 'v'])
    """
    return frozenset(read(path).words) & ROLES[0]


class Vocabulary:
    """How much each word of two models tells: words in every path tell nothing."""

    def __init__(self, paths: Iterable[str]) -> None:
        paths = list(paths)
        seen = Counter(word for path in paths for word in set(read(path).words))
        self._weights = {word: math.log(1 + len(paths) / count) for word, count in seen.items()}

    def distance(self, one: str, other: str) -> float:
        """From 0 (the same words) to 1 (none in common).

        More for roles that are not each other, or that only one path speaks of.
        """
        first, second = set(read(one).words), set(read(other).words)
        common = sum(self._weights.get(word, 1.0) for word in first & second)
        every = sum(self._weights.get(word, 1.0) for word in first | second)
        silent = sum(bool(first & kind) != bool(second & kind) for kind in ROLES[:2])
        apart = 1 - common / every if every else 0.0
        return apart + CONTRARY * contrary(first, second) + SILENT * silent


def contrary(first: set[str], second: set[str]) -> int:
    """How many kinds of roles the two speak of differently.

    >>> contrary({"q", "fc"}, {"k", "fc"}), contrary({"q"}, {"fc"})
    (1, 0)
    """
    count = 0
    for kind in ROLES:
        one, other = first & kind, second & kind
        if one and other and not one & other:
            count += 1
    return count
