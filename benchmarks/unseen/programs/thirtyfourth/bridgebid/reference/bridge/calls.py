"""The 38 calls: 1C, 1D, ... 7N, then P, X, XX; two more tokens for padding and for the start of an auction."""
STRAINS = "CDHSN"
BIDS = [f"{level}{strain}" for level in range(1, 8) for strain in STRAINS]
CALLS = BIDS + ["P", "X", "XX"]
INDEX = {c: i for i, c in enumerate(CALLS)}
PASS, DOUBLE, REDOUBLE = INDEX["P"], INDEX["X"], INDEX["XX"]
PAD, START = 38, 39
TOKENS = 40


def encode(text):
    return [INDEX[c] for c in text.split()]
