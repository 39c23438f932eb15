def spans(tags):
    """(kind, begin, end) of every entity; an I- without its B- begins one too."""
    found, kind, begin = [], None, 0
    for i, tag in enumerate(list(tags) + ["O"]):
        if kind is not None and (tag[0] != "I" or tag[2:] != kind):
            found.append((kind, begin, i))
            kind = None
        if tag != "O" and kind is None:
            kind, begin = tag[2:], i
    return set(found)


def f1(predicted, gold):
    tp = fp = fn = 0
    per_kind = {}
    for p, g in zip(predicted, gold):
        p, g = spans(p), spans(g)
        tp, fp, fn = tp + len(p & g), fp + len(p - g), fn + len(g - p)
        for kind, *_ in p | g:
            per_kind.setdefault(kind, [0, 0])
        for span in p & g:
            per_kind[span[0]][0] += 2
        for span in list(p) + list(g):
            per_kind[span[0]][1] += 1
    micro = 2 * tp / max(2 * tp + fp + fn, 1)
    macro = sum(a / b for a, b in per_kind.values()) / max(len(per_kind), 1)
    return {"precision": tp / max(tp + fp, 1), "recall": tp / max(tp + fn, 1), "f1": micro, "macro_f1": macro}
