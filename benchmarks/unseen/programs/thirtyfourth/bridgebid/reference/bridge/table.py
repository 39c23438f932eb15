"""Seats and vulnerability as the player to call sees them."""
import numpy as np

SIDES = {"none": (0, 0), "ns": (1, 0), "ew": (0, 1), "both": (1, 1)}


def player(dealer, auction):
    return (dealer + len(auction)) % 4


def relative_seats(dealer, auction):
    """0 the player, 1 left, 2 partner, 3 right, for every call so far."""
    me = player(dealer, auction)
    return [(dealer + i - me) % 4 for i in range(len(auction))]


def vulnerability(name, seat):
    ns, ew = SIDES[name]
    return np.array([ns, ew] if seat % 2 == 0 else [ew, ns], np.float32)
