import paddle
import paddle.nn.functional as F

from .yarn import CHANGE, KINDS, NO_STITCH


def row_metric(outputs, truth):
    scores = outputs[0]
    kind = scores.dtype
    guess = scores.argmax(axis=-1)
    right = (guess == truth).astype(kind)
    asked = (truth != NO_STITCH).astype(kind)

    of_kind = F.one_hot(truth, KINDS).astype(kind)[..., 1:]
    many = of_kind.sum([0, 1])
    hits = (of_kind * right.unsqueeze(-1)).sum([0, 1])
    found = (many > 0).astype(kind)
    recall = (hits / many.clip(min=1)).sum() / found.sum()

    change = paddle.to_tensor(CHANGE)
    imbalance = (change[guess] - change[truth]).sum(axis=1).abs().astype(kind)
    nll = F.cross_entropy(scores, truth, reduction="none", axis=-1).reshape(truth.shape)
    return {
        "stitches": (right * asked).sum() / asked.sum(),
        "recall": recall,
        "rows": (right * asked).sum(1).equal(asked.sum(1)).astype(kind).mean(),
        "balance": imbalance.mean(),
        "perplexity": ((nll * asked).sum() / asked.sum()).exp(),
    }
