import torch


def segmentation_scores(outputs, target, n_classes, ignore):
    pred = outputs["out"].argmax(dim=1)
    keep = target != ignore
    pred, target = pred[keep], target[keep]
    hist = torch.bincount(target * n_classes + pred, minlength=n_classes ** 2).view(n_classes, n_classes).double()
    inter = hist.diag()
    union = hist.sum(0) + hist.sum(1) - inter
    seen = union > 0
    return {
        "miou": (inter[seen] / union[seen]).mean().item(),
        "pixel_acc": (inter.sum() / hist.sum()).item(),
    }
