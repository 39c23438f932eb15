"""Position -> 18 planes of 8 x 8."""
import numpy as np

from .fen import PIECES, from_mover, parse


def castling_flags(castling, white):
    order = "KQkq" if white else "kqKQ"
    return [1.0 if letter in castling else 0.0 for letter in order]


def encode(fen):
    board, white, castling, clock = parse(fen)
    planes = np.zeros((18, 64), dtype=np.float32)
    for square, letter in from_mover(board, white).items():
        planes[PIECES.index(letter), square] = 1.0
    for i, flag in enumerate(castling_flags(castling, white)):
        planes[12 + i] = flag
    planes[16] = clock / 50.0
    planes[17] = 1.0
    return planes.reshape(18, 8, 8), white
