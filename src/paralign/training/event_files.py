"""Reading TensorBoard's event files, scalars by tag and step, without TensorBoard.

A file is a row of records: length, checksum, a protocol buffer ``Event``, checksum. Read are ``step`` and, of ``summary.value``, ``tag``
with ``simple_value`` (PyTorch, Keras) or a ``tensor`` of one number (TensorFlow 2). A record that cannot be read is ``damaged``, with its
number; behind one whose length is not sound nothing can be found any more, and that is said too.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.trainlog.lines import EVAL, TRAIN, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

#: how the first event of a file begins
VERSION = b"brain.Event:"

#: bytes of a record beyond which it holds pictures or histograms, not scalars
LARGEST = 1 << 16

#: bytes before and behind an event: its length and the checksum of that; its own checksum
HEAD, TAIL = 12, 4

#: of protocol buffers: how a number, eight bytes, bytes and four bytes are stored
NUMBER, EIGHT, BYTES, FOUR = 0, 1, 2, 5

#: types of a tensor with one number, and how its bytes are read
TYPES = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}

#: fields of a tensor that hold its numbers: ``tensor_content``, ``float_val``, ``double_val``
CONTENTS = {(4, BYTES), (5, BYTES), (6, BYTES), (5, FOUR), (6, EIGHT)}

#: words of a tag that say which part of the training it is of
OF_EVALUATION = frozenset({"eval", "evaluation", "val", "valid", "validation", "test"})
OF_TRAINING = frozenset({"train", "training"})

#: tags of an epoch's number, which belongs to all that has its step
EPOCH_TAGS = ("epoch",)

Scalar = tuple[str, int, float]


def is_event_file(raw: bytes) -> bool:
    """Whether a file is one of events."""
    return VERSION in raw[:64]


@dataclass
class Read:
    """What a file holds: rows, damaged records, and how many hold no scalar."""

    rows: list[Row] = field(default_factory=list)
    damaged: list[tuple[int, str]] = field(default_factory=list)
    other: int = 0


def read(raw: bytes, costs: dict[str, str]) -> Read:
    """Read the scalars of a file, a row a kind and step.

    Args:
        raw: the file.
        costs: names of costs -> field of a row.
    """
    found, scalars = Read(), []  # type: Read, list[Scalar]
    for number, (event, why) in enumerate(_records(raw), 1):
        if why:
            found.damaged.append((number, why))
            continue
        try:
            held = _scalars(event)
        except (ValueError, struct.error) as fault:
            found.damaged.append((number, f"the event is not whole: {fault}"))
            continue
        found.other += not held
        scalars += held
    found.rows = _rows(scalars, costs)
    return found


def _records(raw: bytes) -> Iterator[tuple[bytes, str]]:
    """The events of a file, each with what is wrong with it."""
    at = 0
    while at < len(raw):
        head = raw[at : at + HEAD]
        if len(head) < HEAD or _masked(head[:8]) != int.from_bytes(head[8:], "little"):
            yield b"", "the length of the event cannot be read: nothing behind it was, either"
            return
        size = int.from_bytes(head[:8], "little")
        begin, end = at + HEAD, at + HEAD + size
        if end + TAIL > len(raw):
            yield b"", "the file ends within the event"
            return
        event = raw[begin:end] if size <= LARGEST else b""
        sound = size > LARGEST or _masked(event) == int.from_bytes(raw[end : end + TAIL], "little")
        yield event, "" if sound else "the checksum of the event is not that of its bytes"
        at = end + TAIL


def _table() -> list[int]:
    """Of each byte, its part in a checksum (CRC-32C)."""
    found = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        found.append(value)
    return found


TABLE = _table()


def _masked(data: bytes) -> int:
    """The checksum of bytes as these files store it."""
    value = 0xFFFFFFFF
    for byte in data:
        value = TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to ten bytes, and where it ends."""
    value = 0
    for place in range(10):
        byte = data[at + place : at + place + 1]
        if not byte:
            break
        value |= (byte[0] & 0x7F) << 7 * place
        if byte[0] < 0x80:  # noqa: PLR2004 - the last byte of a number lacks the highest bit
            return value, at + place + 1
    raise ValueError("a number does not end")


def _fields(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """The fields of a message: number, how it is stored, and its value."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind, value, held = key & 7, 0, b""
        if kind == NUMBER:
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if kind == BYTES else ({EIGHT: 8, FOUR: 4}.get(kind, -1), at)
            held = data[at : at + size]
            if size < 0 or len(held) < size:
                raise ValueError("a field does not end")
            at += size
        yield key >> 3, kind, value, held


def _scalars(event: bytes) -> list[Scalar]:
    """Tag, step and value of each scalar of an event."""
    step, values = 0, []
    for place, kind, number, held in _fields(event):
        if (place, kind) == (2, NUMBER):
            step = number - (1 << 64) if number >> 63 else number
        elif (place, kind) == (5, BYTES):
            values += [_value(inner) for at, stored, _, inner in _fields(held) if (at, stored) == (1, BYTES)]
    return [(tag, step, value) for tag, value in values if tag and value is not None]


def _value(message: bytes) -> tuple[str, float | None]:
    """Tag and number of a ``Summary.Value``; None where it is no scalar."""
    tag, found = "", None
    for place, kind, _, held in _fields(message):
        if (place, kind) == (1, BYTES):
            tag = held.decode("utf-8", errors="replace")
        elif (place, kind) == (2, FOUR):
            found = float(struct.unpack("<f", held)[0])
        elif (place, kind) == (8, BYTES):
            found = _of_tensor(held)
    return tag, found


def _of_tensor(message: bytes) -> float | None:
    """The number of a ``TensorProto`` that holds just one."""
    dtype, content = 0, b""
    for place, kind, number, held in _fields(message):
        if (place, kind) == (1, NUMBER):
            dtype = number
        elif (place, kind) in CONTENTS:
            content = held
    form = TYPES.get(dtype, "")
    if form and struct.calcsize(form) == len(content):
        return float(struct.unpack(form, content)[0])
    return None


def _rows(scalars: list[Scalar], costs: dict[str, str]) -> list[Row]:
    """The scalars of each step as a row of the training and one of the evaluation.

    A step that the file has twice, as after a resumed training, has the last value. Evaluations without an epoch are numbered by steps.
    """
    names = _names({tag for tag, _, _ in scalars})
    epochs = {step: value for tag, step, value in scalars if tag.lower() in EPOCH_TAGS and math.isfinite(value)}
    rows: dict[tuple[str, int], Row] = {}
    for tag, step, value in scalars:
        if tag.lower() in EPOCH_TAGS:
            continue
        kind, name = names[tag]
        epoch = int(epochs.get(step, 0 if kind == TRAIN else step))
        row = rows.setdefault((kind, step), Row(kind, epoch, step if kind == TRAIN else -1))
        if name.lower() in costs:
            setattr(row, costs[name.lower()], value)
        else:
            row.values[name] = value
    return [row for row in rows.values() if row.values]


def _names(tags: set[str]) -> dict[str, tuple[str, str]]:
    """Each tag's part of the training and figure, without the word that says so."""
    found = {}
    for tag in tags:
        words = [word for word in re.split(r"[/_. -]", tag.lower()) if word]
        kind = EVAL if OF_EVALUATION & set(words) else TRAIN
        found[tag] = kind, _bare(tag)
    count: dict[str, Counter[str]] = defaultdict(Counter)
    for kind, name in found.values():
        count[kind][name] += 1
    return {tag: (kind, name if count[kind][name] == 1 else tag) for tag, (kind, name) in found.items()}


def _bare(tag: str) -> str:
    """A tag without the words of :data:`OF_TRAINING` and :data:`OF_EVALUATION` at its ends."""
    parts = re.split(r"([/_. -])", tag)
    known = OF_EVALUATION | OF_TRAINING
    while len(parts) > 2 and parts[0].lower() in known:  # noqa: PLR2004 - a word, what parts it, another word
        parts = parts[2:]
    while len(parts) > 2 and parts[-1].lower() in known:  # noqa: PLR2004 - as above
        parts = parts[:-2]
    return "".join(parts)
