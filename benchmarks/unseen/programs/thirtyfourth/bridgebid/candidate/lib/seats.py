import numpy as np

WHO = {"none": "", "ns": "02", "ew": "13", "both": "0123"}


def turned(dealer, count):
    """Seats of the calls so far, seen from who calls next (0), clockwise."""
    return [(i - count) % 4 for i in range(count)]


def at_risk(name, me):
    """[we, they] are vulnerable."""
    return np.array([str(me) in WHO[name], str((me + 1) % 4) in WHO[name]], dtype="float32")
