import torch
import torch.nn.functional as F

from . import letters


def spelling(logits, codes, smooth=0.1):
    return F.cross_entropy(logits.flatten(0, 1), codes.flatten(), ignore_index=letters.PAD, label_smoothing=smooth)


def diagonal(looked, codes, lengths, width=0.25):
    """Looking far from where a letter should be costs."""
    used = (codes != letters.PAD).to(looked.dtype)
    row = torch.arange(looked.shape[1], dtype=looked.dtype)[:, None] / used.sum(1)[:, None, None]
    column = torch.arange(looked.shape[2], dtype=looked.dtype) / lengths[:, None, None]
    far = 1 - torch.exp(-((row - column) ** 2) / (2 * width ** 2))
    return ((looked * far).sum(2) * used).sum() / used.sum()


def total(outputs, labels):
    codes, speaker = labels[:, :-1], labels[:, -1]
    return {"loss": spelling(outputs["letters"], codes)
            + 0.2 * F.cross_entropy(outputs["speaker"], speaker)
            + 0.5 * diagonal(outputs["looked"], codes, outputs["lengths"])}


@torch.no_grad()
def rates(outputs, labels):
    """Shares of letters that are right, of words that are wholly right, and how sure the right letters were."""
    codes = labels[:, :-1]
    used = codes != letters.PAD
    right = (outputs["letters"].argmax(-1) == codes) & used
    words = (right == used).all(1)
    sure = outputs["letters"].softmax(-1).gather(2, codes.unsqueeze(-1)).squeeze(-1)
    return {"letters": int(right.sum()) / int(used.sum()), "words": float(words.double().mean()),
            "sure": float(sure[used].mean())}
