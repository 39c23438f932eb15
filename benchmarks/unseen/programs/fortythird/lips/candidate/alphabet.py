"""From words to rows of codes and back."""
from string import ascii_lowercase

SIGNS = ["", "<", ">"] + list(ascii_lowercase)
NOTHING, OPEN, CLOSE = range(3)
SLOTS = 7


def to_codes(word):
    codes = [SIGNS.index(c) for c in word.lower()[: SLOTS - 1]]
    codes.append(CLOSE)
    codes.extend([NOTHING] * (SLOTS - len(codes)))
    return codes


def before(codes):
    """The codes one place later, opened, without the closing sign."""
    return [OPEN, *(NOTHING if c == CLOSE else c for c in codes[: SLOTS - 1])]


def to_word(codes):
    spelled = [SIGNS[c] if c > CLOSE else "?" for c in codes]
    return "".join(spelled[: codes.index(CLOSE)] if CLOSE in codes else spelled)
