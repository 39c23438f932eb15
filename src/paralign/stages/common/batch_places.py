"""Where something lies in a batch, as a program writes it."""


def place(leaf: str) -> str:
    """The place of a leaf of a batch, which names may be parts of.

    >>> place("0"), place("1.boxes"), place("")
    ('batch[0]', 'batch[1]["boxes"]', 'the batch')
    """
    if not leaf:
        return "the batch"
    parts = (f"[{part}]" if part.isdigit() else f'["{part}"]' for part in leaf.split("."))
    return "batch" + "".join(parts)
