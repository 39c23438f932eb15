"""Tokens of an auction: 35 bids in rising order, three other calls, a pad and a start."""
import itertools

SUIT_ORDER = "SHDC"
RANK_ORDER = "AKQJT98765432"
NAMES = ["".join(x) for x in itertools.product("1234567", "CDHSN")] + ["P", "X", "XX"]
NUMBER = dict(zip(NAMES, range(len(NAMES))))
P, X, XX = (NUMBER[n] for n in ("P", "X", "XX"))
PAD, BEGIN = len(NAMES), len(NAMES) + 1
SIZE = len(NAMES) + 2
