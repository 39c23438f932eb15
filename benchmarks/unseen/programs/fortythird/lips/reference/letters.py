"""Letters as numbers: 0 pads, 1 begins, 2 ends."""
PAD, BEGIN, END = 0, 1, 2
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
SIZE = 3 + len(ALPHABET)
LONGEST = 7


def encode(word):
    codes = [3 + ALPHABET.index(c) for c in word.lower()][: LONGEST - 1] + [END]
    return codes + [PAD] * (LONGEST - len(codes))


def shifted(codes):
    """What the speller is given: the letters before each."""
    return [BEGIN] + [c if c != END else PAD for c in codes[:-1]]


def decode(codes):
    word = ""
    for c in codes:
        if c == END:
            break
        word += ALPHABET[c - 3] if c > 2 else "?"
    return word
