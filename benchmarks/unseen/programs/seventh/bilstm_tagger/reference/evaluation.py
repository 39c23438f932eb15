from .config import cfg


def spans(tags):
    """Entities (begin, end, kind) of a list of BIO tags; an I that continues nothing begins one."""
    found, start, kind = [], None, None
    for i, tag in enumerate(tags + ["O"]):
        inside = tag.startswith("I-") and kind == tag[2:]
        if start is not None and not inside:
            found.append((start, i, kind))
            start = kind = None
        if tag != "O" and not inside:
            start, kind = i, tag[2:]
    return set(found)


def scores(predictions, golds):
    right = tokens = tp = n_pred = n_gold = 0
    for pred, gold in zip(predictions, golds):
        keep = [i for i, g in enumerate(gold) if g != -100]
        p, g = [cfg.tags[pred[i]] for i in keep], [cfg.tags[gold[i]] for i in keep]
        right += sum(a == b for a, b in zip(p, g))
        tokens += len(g)
        sp, sg = spans(p), spans(g)
        tp, n_pred, n_gold = tp + len(sp & sg), n_pred + len(sp), n_gold + len(sg)
    precision, recall = tp / max(n_pred, 1), tp / max(n_gold, 1)
    return {"accuracy": right / tokens, "precision": precision, "recall": recall, "f1": 2 * precision * recall / max(precision + recall, 1e-12)}
