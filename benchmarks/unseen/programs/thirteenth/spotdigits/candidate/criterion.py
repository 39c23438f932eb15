import paddle
import paddle.nn.functional as F
from geometry import anchor_table, decode, encode, generalised_iou, iou_table


@paddle.no_grad()
def assign(anchors, boxes, positive, negative):
    """For each anchor the number of its object, -1 for background, -2 for neither."""
    iou = iou_table(anchors, boxes)
    best = iou.max(axis=1)
    index = iou.argmax(axis=1)
    out = paddle.where(best >= positive, index, paddle.full_like(index, -2))
    out = paddle.where(best < negative, paddle.full_like(index, -1), out)
    out = out.numpy().copy()
    for number, anchor in enumerate(iou.argmax(axis=0).tolist()):
        out[anchor] = number
    return out


def focal_sum(logits, targets, alpha, gamma):
    p = F.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    wrong = paddle.where(targets > 0.5, 1 - p, p)
    balance = alpha * targets + (1 - alpha) * (1 - targets)
    return (balance * wrong.pow(gamma) * ce).sum()


def smooth_l1_sum(x, y, beta):
    d = (x - y).abs()
    return paddle.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta).sum()


def detection_loss(cfg, outputs, targets):
    logits, deltas = outputs["logits"], outputs["deltas"]
    targets = targets.astype(deltas.dtype)
    anchors = paddle.to_tensor(anchor_table(cfg)).astype(deltas.dtype)
    parts = {"cls": 0.0, "box": 0.0, "giou": 0.0}
    total = 0
    for b in range(logits.shape[0]):
        objects = int((targets[b, :, 4] >= 0).sum())
        boxes, labels = targets[b, :objects, :4], targets[b, :objects, 4]
        index = assign(anchors, boxes, cfg.positive, cfg.negative)
        pos = paddle.to_tensor((index >= 0).nonzero()[0])
        counted = paddle.to_tensor((index > -2).nonzero()[0])
        of = paddle.to_tensor(index[index >= 0])
        gt = paddle.index_select(boxes, of)
        table = paddle.zeros_like(logits[b])
        rows = F.one_hot(paddle.index_select(labels, of).astype("int64"), cfg.net.classes).astype(logits.dtype)
        table = paddle.scatter(table, pos, rows)
        parts["cls"] += focal_sum(
            paddle.index_select(logits[b], counted), paddle.index_select(table, counted), cfg.alpha, cfg.gamma
        )
        mine = paddle.index_select(deltas[b], pos)
        near = paddle.index_select(anchors, pos)
        parts["box"] += smooth_l1_sum(mine, encode(gt, near, cfg.coder), cfg.beta)
        parts["giou"] += (1 - generalised_iou(decode(mine, near, cfg.coder), gt)).sum()
        total += pos.shape[0]
    n = max(total, 1)
    cls = parts["cls"] / n
    box = cfg.box_weight * parts["box"] / n
    giou = cfg.giou_weight * parts["giou"] / n
    return {"loss": cls + box + giou, "cls": cls, "box": box, "giou": giou}
