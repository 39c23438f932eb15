"""F#4, Bb3 and so on, as semitones."""
SEMITONE = dict(zip("CDEFGAB", (0, 2, 4, 5, 7, 9, 11)))


def to_number(text):
    octave = int(text[-1])
    accidental = text[1:-1]
    return (octave + 1) * 12 + SEMITONE[text[0]] + accidental.count("#") - accidental.count("b")
