import numpy as np

from .calls import CALLS, DOUBLE, PASS, REDOUBLE


def legal_calls(auction):
    """0/1 mask over the calls for the player whose turn it is."""
    mask = np.zeros(len(CALLS), bool)
    mask[PASS] = True
    bid, age, state = -1, 0, None
    for back, call in enumerate(reversed(auction), start=1):
        if call < PASS:
            bid, age = call, back
            break
        if call in (DOUBLE, REDOUBLE) and state is None:
            state = call
    mask[bid + 1:PASS] = True
    if bid >= 0:
        theirs = age % 2 == 1
        mask[DOUBLE] = theirs and state is None
        mask[REDOUBLE] = (not theirs) and state == DOUBLE
    return mask
