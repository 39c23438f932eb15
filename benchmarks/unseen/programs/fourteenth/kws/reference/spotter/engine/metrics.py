import torch


def spotting_scores(logits, target, n_classes):
    pred = logits.argmax(dim=1)
    top2 = logits.topk(2, dim=1).indices
    f1 = []
    for c in range(n_classes):
        tp = ((pred == c) & (target == c)).sum().item()
        fp = ((pred == c) & (target != c)).sum().item()
        fn = ((pred != c) & (target == c)).sum().item()
        if tp + fn == 0:
            continue
        f1.append(2 * tp / (2 * tp + fp + fn))
    return {
        "acc": (pred == target).float().mean().item(),
        "top2": (top2 == target[:, None]).any(dim=1).float().mean().item(),
        "macro_f1": sum(f1) / max(len(f1), 1),
    }
