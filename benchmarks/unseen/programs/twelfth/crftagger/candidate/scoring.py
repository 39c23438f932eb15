from collections import Counter


def entities(tags):
    out, start = [], None
    for i, tag in enumerate(tags):
        inside = start is not None and tag == "I-" + tags[start][2:]
        if inside:
            continue
        if start is not None:
            out.append((tags[start][2:], start, i))
        start = None if tag == "O" else i
    if start is not None:
        out.append((tags[start][2:], start, len(tags)))
    return out


def report(guesses, golds):
    hit, guessed, true = Counter(), Counter(), Counter()
    for guess, gold in zip(guesses, golds):
        guess, gold = entities(guess), entities(gold)
        guessed.update(kind for kind, _, _ in guess)
        true.update(kind for kind, _, _ in gold)
        hit.update(kind for kind, _, _ in set(guess) & set(gold))
    tp, p, g = (sum(c.values()) for c in (hit, guessed, true))
    kinds = set(guessed) | set(true)
    per_kind = [2 * hit[k] / (guessed[k] + true[k]) for k in kinds]
    return {
        "precision": tp / max(p, 1),
        "recall": tp / max(g, 1),
        "f1": 2 * tp / max(p + g, 1),
        "macro_f1": sum(per_kind) / max(len(kinds), 1),
    }
