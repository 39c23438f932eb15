"""What the laws allow."""
import numpy as np

from .vocab import NAMES, P, X, XX


def allowed(auction):
    may = np.zeros(len(NAMES), dtype=bool)
    highest, owner, doubled = -1, None, 0
    for turn, call in enumerate(auction):
        if call < P:
            highest, owner, doubled = call, turn % 2, 0
        elif call == X:
            doubled = 1
        elif call == XX:
            doubled = 2
    may[highest + 1:P + 1] = True
    if owner is not None:
        ours = owner == len(auction) % 2
        may[X] = not ours and doubled == 0
        may[XX] = ours and doubled == 1
    return may
