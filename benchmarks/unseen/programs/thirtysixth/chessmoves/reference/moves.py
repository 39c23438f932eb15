"""UCI moves -> (from, to, promotion) seen by the side to move."""
import numpy as np

PROMOTIONS = ["", "q", "r", "b", "n"]
WIDTH = 24


def square(text):
    return (int(text[1]) - 1) * 8 + "abcdefgh".index(text[0])


def move_index(uci, white):
    flip = 0 if white else 56
    return square(uci[:2]) ^ flip, square(uci[2:4]) ^ flip, PROMOTIONS.index(uci[4:])


def table(ucis, white, width=WIDTH):
    """Padded to `width` rows, with the mask of rows that are moves."""
    rows = np.zeros((width, 3), dtype=np.int64)
    mask = np.zeros(width, dtype=bool)
    for i, uci in enumerate(ucis):
        rows[i] = move_index(uci, white)
        mask[i] = True
    return rows, mask
