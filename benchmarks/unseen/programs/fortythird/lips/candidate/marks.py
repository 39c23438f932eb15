"""Loss and marks of the speller."""
import paddle
import paddle.nn.functional as F

from .alphabet import NOTHING, SIGNS

SMOOTH, GUESSING, ALONG, WIDE = 0.1, 0.2, 0.5, 0.25


def smoothed(odds, codes):
    """Cross-entropy against softened letters, over the places that hold one."""
    target = F.label_smooth(F.one_hot(codes, len(SIGNS)).astype(odds.dtype), epsilon=SMOOTH)
    each = -(target * F.log_softmax(odds, axis=-1)).sum(axis=-1)
    real = (codes != NOTHING).astype(odds.dtype)
    return (each * real).sum() / real.sum()


def astray(gazes, codes, lengths):
    real = (codes != NOTHING).astype(gazes.dtype)
    rows = paddle.arange(gazes.shape[1]).astype(gazes.dtype) / real.sum(axis=1, keepdim=True)
    columns = paddle.arange(gazes.shape[2]).astype(gazes.dtype) / lengths.astype(gazes.dtype).unsqueeze(-1)
    apart = (rows.unsqueeze(2) - columns.unsqueeze(1)) / WIDE
    cost = -paddle.expm1(-apart.square() / 2)
    return paddle.einsum("blt,blt,bl->", gazes, cost, real) / real.sum()


def objective(outputs, labels):
    codes, person = labels[:, :-1], labels[:, -1]
    fit = smoothed(outputs["letters"], codes)
    who = F.cross_entropy(outputs["speaker"], person)
    return {"loss": fit + GUESSING * who + ALONG * astray(outputs["looked"], codes, outputs["lengths"])}


@paddle.no_grad()
def marks(outputs, labels):
    codes = labels[:, :-1]
    odds = F.softmax(outputs["letters"], axis=-1)
    real = (codes != NOTHING).astype(odds.dtype)
    right = (paddle.argmax(odds, axis=-1) == codes).astype(odds.dtype) * real
    whole = (right.sum(axis=1) == real.sum(axis=1)).astype(odds.dtype)
    sure = paddle.take_along_axis(odds, codes.unsqueeze(-1), axis=2).squeeze(-1)
    return {"letters": float(right.sum() / real.sum()), "words": float(whole.mean()),
            "sure": float((sure * real).sum() / real.sum())}
