import numpy as np

RANKS = "AKQJT98765432"
SUITS = "SHDC"


def parse_hand(text):
    """"AK52.QJ3.T9.A842" (spades first) -> 0/1 array [4, 13], aces first."""
    grid = np.zeros((4, 13), np.float32)
    for s, cards in enumerate(text.split(".")):
        for card in cards:
            grid[s, RANKS.index(card)] = 1
    if grid.sum() != 13:
        raise ValueError(f"{text!r} is no hand of 13 cards")
    return grid
