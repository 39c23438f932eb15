import torch

from .registry import CONFIG, LOSSES


@LOSSES.register
class MultiLabelCircle:
    """Su's loss: every true span above nought, every other one below."""

    def __call__(self, logits, labels):
        b, fields = logits.shape[:2]
        logits, labels = logits.reshape(b * fields, -1), labels.reshape(b * fields, -1)
        turned = (1 - 2 * labels) * logits
        nought = torch.zeros_like(turned[:, :1])
        negative = turned - labels * 1e7
        positive = turned - (1 - labels) * 1e7
        negative = torch.logsumexp(torch.cat([negative, nought], dim=1), dim=1)
        positive = torch.logsumexp(torch.cat([positive, nought], dim=1), dim=1)
        return (negative + positive).mean()


def span_scores(logits, labels):
    found = (logits > 0).to(logits.dtype)
    right = (found * labels).sum(dim=(0, 2, 3))
    f1 = 2 * right.sum() / (found.sum() + labels.sum()).clamp(min=1)
    recall = right / labels.sum(dim=(0, 2, 3)).clamp(min=1)
    best = logits.flatten(2).argmax(dim=-1)
    hit = labels.flatten(2).gather(2, best.unsqueeze(-1)).squeeze(-1)
    there = labels.flatten(2).amax(dim=-1)
    result = {"f1": f1, "best": hit.sum() / there.sum().clamp(min=1)}
    margin = torch.where(labels > 0, logits, torch.zeros_like(logits)).sum() / labels.sum().clamp(min=1)
    result["margin"] = margin
    result.update({"recall_" + name: recall[i] for i, name in enumerate(CONFIG["fields"])})
    return result
