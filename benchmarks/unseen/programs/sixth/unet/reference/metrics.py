import torch


@torch.no_grad()
def segmentation_scores(logits, target, threshold=0.5, eps=1e-7):
    pred = (torch.sigmoid(logits) > threshold).flatten(1)
    truth = (target > 0.5).flatten(1)
    tp = (pred & truth).sum(1).double()
    fp = (pred & ~truth).sum(1).double()
    fn = (~pred & truth).sum(1).double()
    iou = (tp + eps) / (tp + fp + fn + eps)
    dice = (2 * tp + eps) / (2 * tp + fp + fn + eps)
    return {
        "iou": iou.mean().item(),
        "dice": dice.mean().item(),
        "accuracy": (pred == truth).double().mean().item(),
    }
