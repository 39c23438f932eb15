from collections import namedtuple

Hyper = namedtuple("Hyper", "size depth heads groups hidden symbols positions base std cap")


def round_up(number, unit):
    return -(-number // unit) * unit


def small(size=64):
    return Hyper(
        size=size,
        depth=2,
        heads=8,
        groups=2,
        hidden=round_up(8 * size // 3, 16),
        symbols=256,
        positions=48,
        base=500.0,
        std=0.05,
        cap=15.0,
    )
