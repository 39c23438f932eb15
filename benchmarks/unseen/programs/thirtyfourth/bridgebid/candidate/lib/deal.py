import numpy as np

from .rules import allowed
from .seats import at_risk, turned
from .vocab import BEGIN, NUMBER, RANK_ORDER, SUIT_ORDER


def holding(text):
    cards = [[rank in suit for rank in RANK_ORDER] for suit in text.split(".")]
    grid = np.asarray(cards, dtype="float32")
    assert grid.shape == (len(SUIT_ORDER), 13) and grid.sum() == 13, text
    return grid


def position(row):
    auction = [NUMBER[c] for c in row["auction"].split()]
    count = len(auction)
    me = (row["dealer"] + count) % 4
    return dict(
        suits=holding(row["hand"]),
        calls=np.asarray([BEGIN, *auction], dtype="int64"),
        seats=np.asarray([0, *turned(row["dealer"], count)], dtype="int64"),
        vul=at_risk(row["vul"], me),
        legal=allowed(auction),
    )
