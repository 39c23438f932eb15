import torch
import torch.nn.functional as F

from .registry import register

IGNORE = 255


def dice_loss(logits, target, smooth):
    """Soft Dice over the whole batch, without background, on labelled voxels."""
    valid = (target != IGNORE).unsqueeze(1).to(logits.dtype)
    hot = F.one_hot(target.masked_fill(target == IGNORE, 0), logits.shape[1]).movedim(-1, 1).to(logits.dtype)
    probs = logits.softmax(dim=1) * valid
    hot = hot * valid
    axes = (0, 2, 3, 4)
    overlap = (probs * hot).sum(axes)[1:]
    size = probs.pow(2).sum(axes)[1:] + hot.sum(axes)[1:]
    return 1 - ((2 * overlap + smooth) / (size + smooth)).mean()


def focal_loss(logits, target, gamma, alpha):
    """Focal cross-entropy; class weights normalise the mean as in F.cross_entropy."""
    weight = torch.tensor(alpha, dtype=logits.dtype, device=logits.device)
    logp = logits.log_softmax(dim=1)
    ce = F.nll_loss(logp, target, weight, ignore_index=IGNORE, reduction="none")
    safe = target.masked_fill(target == IGNORE, 0).unsqueeze(1)
    pt = logp.gather(1, safe).squeeze(1).exp()
    norm = weight[safe.squeeze(1)] * (target != IGNORE)
    return ((1 - pt) ** gamma * ce).sum() / norm.sum().clamp(min=1.0)


@register
class DeepSupervision:
    def __init__(self, scales, gamma, alpha, smooth, dice_weight, focal_weight):
        self.scales, self.gamma, self.alpha, self.smooth = scales, gamma, alpha, smooth
        self.dice_weight, self.focal_weight = dice_weight, focal_weight
        raw = [0.5 ** i for i in range(len(scales))]
        self.weights = [r / sum(raw) for r in raw]

    def __call__(self, outputs, label):
        total, parts = 0.0, {}
        for i, (logits, scale) in enumerate(zip(outputs, self.scales)):
            size = [n // s for n, s in zip(label.shape[1:], scale)]
            small = F.interpolate(label.unsqueeze(1).double(), size=size, mode="nearest").squeeze(1).long()
            dice = dice_loss(logits, small, self.smooth)
            focal = focal_loss(logits, small, self.gamma, self.alpha)
            total = total + self.weights[i] * (self.dice_weight * dice + self.focal_weight * focal)
            if i == 0:
                parts = {"dice": dice.detach(), "focal": focal.detach()}
        return {"loss": total, **parts}


@torch.no_grad()
def hard_scores(outputs, label):
    """Dice and relative volume error per class; classes that are nowhere do not count."""
    pred = outputs[0].argmax(dim=1)
    known = label != IGNORE
    dices, volumes = [], []
    for c in range(1, outputs[0].shape[1]):
        p, t = (pred == c) & known, (label == c)
        both = p.sum() + t.sum()
        dices.append(2.0 * (p & t).sum().double() / both if both else torch.tensor(float("nan")))
        if t.any():
            volumes.append((p.sum() - t.sum()).abs().double() / t.sum())
    dices = torch.stack([d.double() for d in dices])
    accuracy = ((pred == label) & known).sum().double() / known.sum()
    volume = torch.stack(volumes).double().mean() if volumes else torch.tensor(0.0)
    return {"dice": dices.nanmean(), "organ": dices[0].nan_to_num(1.0), "volume_error": volume, "accuracy": accuracy}
