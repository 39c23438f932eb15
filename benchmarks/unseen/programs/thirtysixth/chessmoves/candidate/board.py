"""Reading of positions and moves, always from the side that moves."""
import re

import numpy as np

LETTERS = {letter: i for i, letter in enumerate("PNBRQKpnbrqk")}
PROMOTED = {"": 0, "q": 1, "r": 2, "b": 3, "n": 4}


class Board:
    def __init__(self, fen):
        placement, side, rights, _, clock, _ = fen.split(" ")
        self.white = side == "w"
        self.rights = rights
        self.clock = int(clock)
        # rank 8 comes first in the text; row 0 is to be rank 1
        rows = [re.sub(r"\d", lambda m: "." * int(m[0]), rank) for rank in placement.split("/")][::-1]
        if not self.white:
            rows = [row.swapcase() for row in rows[::-1]]
        self.rows = rows

    def planes(self):
        out = np.zeros((18, 8, 8), np.float32)
        for r, row in enumerate(self.rows):
            for c, letter in enumerate(row):
                if letter in LETTERS:
                    out[LETTERS[letter], r, c] = 1
        mine, theirs = ("KQ", "kq") if self.white else ("kq", "KQ")
        for k, right in enumerate(mine + theirs):
            out[12 + k] = right in self.rights
        out[16] = self.clock / 50
        out[17] = 1
        return out

    def move(self, uci):
        cells = []
        for name in (uci[0:2], uci[2:4]):
            column, row = ord(name[0]) - ord("a"), int(name[1]) - 1
            cells.append(8 * (row if self.white else 7 - row) + column)
        return [*cells, PROMOTED[uci[4:]]]

    def moves(self, ucis, room):
        found = np.array([self.move(u) for u in ucis], dtype=np.int64)
        padded = np.pad(found, ((0, room - len(found)), (0, 0)))
        return padded, np.arange(room) < len(found)
