"""The few operations of the pickle language in which checkpoints are written here.

See ``pickletools`` for all of them.
"""

from __future__ import annotations

import struct


def text(value: str) -> bytes:
    r"""Push a text.

    >>> text("ab")
    b'X\x02\x00\x00\x00ab'
    """
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def integer(value: int) -> bytes:
    r"""Push a whole number from 0.

    >>> import pickle
    >>> [pickle.loads(b"\x80\x02" + integer(n) + b".") for n in (7, 300, 2**31, 2**62)]
    [7, 300, 2147483648, 4611686018427387904]
    """
    if value < 1 << 8:
        return b"K" + bytes([value])
    if value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little")
    return b"\x8a" + bytes([len(data)]) + data


def integers(values: tuple[int, ...]) -> bytes:
    r"""Push a tuple of whole numbers.

    >>> import pickle
    >>> pickle.loads(b"\x80\x02" + integers((2, 3)) + b".")
    (2, 3)
    """
    return b"(" + b"".join(integer(value) for value in values) + b"t"


def put(index: int) -> bytes:
    """Remember the value on top of the stack."""
    return b"r" + struct.pack("<I", index)


def get(index: int) -> bytes:
    r"""Push a value that was remembered."""
    return b"j" + struct.pack("<I", index)
