import torch

from . import boxes, config, data, network  # noqa: F401  (fills the registries)
from .losses import criterion
from .registry import DETECTORS


def build_model():
    return DETECTORS.build(config.model)


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    """Of the best `top` detections of each picture: how many objects are found, and how well the best one lies."""
    cfg = config.test_cfg
    scores, deltas = outputs
    anchors = criterion.anchors.grid(config.image_size, deltas)
    found = total = 0
    best = []
    for score, delta, target in zip(scores.sigmoid(), deltas, labels):
        target = target[target[:, 4] >= 0]
        value, index = score.flatten().topk(cfg["top"])
        anchor, label = index // config.num_classes, index % config.num_classes
        dets = criterion.coder.decode(anchors[anchor], delta[anchor], config.image_size)
        iou = boxes.bbox_overlaps(dets, target[:, :4].to(dets))
        best.append(iou.max(0)[0].mean())
        hit = (iou >= cfg["iou"]) & (label[:, None] == target[None, :, 4].long())
        found, total = found + int(hit.any(0).sum()), total + len(target)
    return {"recall": found / total, "mean_best_iou": float(torch.stack(best).mean())}


def build_optimizer(model):
    cfg = config.optimizer
    decayed, norms, biases = [], [], []
    for name, p in model.named_parameters():
        if name.endswith("bias") and p.ndim == 1 and "convs" not in name and "stages" not in name:
            biases.append(p)
        elif p.ndim == 1:
            norms.append(p)
        else:
            decayed.append(p)
    return torch.optim.SGD([
        {"params": decayed, "weight_decay": cfg["weight_decay"]},
        {"params": norms, "weight_decay": cfg["weight_decay"] * cfg["norm_decay_mult"]},
        {"params": biases, "weight_decay": 0.0, "lr": cfg["lr"] * cfg["bias_lr_mult"]},
    ], lr=cfg["lr"], momentum=cfg["momentum"])


def build_scheduler(optimizer):
    cfg = config.schedule

    def factor(step):
        if step < cfg["warmup"]:
            return cfg["warmup_ratio"] + (1 - cfg["warmup_ratio"]) * step / cfg["warmup"]
        return cfg["gamma"] ** sum(step >= m for m in cfg["milestones"])

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def build_dataset(split):
    return data.make_dataset(split)


def build_dataloader(split):
    return data.make_loader(split)
