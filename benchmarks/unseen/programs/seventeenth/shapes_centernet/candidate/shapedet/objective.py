import paddle
import paddle.nn.functional as F

from .settings import S


def pick(maps, cells):
    """Values of maps (B, C, H, W) at flat cells (B, N): (B, N, C)."""
    rows = paddle.flatten(maps, start_axis=2).transpose([0, 2, 1])
    return paddle.take_along_axis(rows, cells.unsqueeze(2), axis=1)


def heat_term(logits, truth):
    alpha, beta = S.focal
    p = paddle.clip(F.sigmoid(logits), min=1e-4, max=1 - 1e-4)
    is_center = (truth == 1).astype(p.dtype)
    hit = paddle.log(p) * paddle.pow(1 - p, alpha) * is_center
    miss = paddle.log(1 - p) * paddle.pow(p, alpha) * paddle.pow(1 - truth, beta) * (1 - is_center)
    return -(hit.sum() + miss.sum()) / paddle.clip(is_center.sum(), min=1.0)


def l1_term(value, truth, valid):
    distance = F.l1_loss(value, truth, reduction="none").sum(axis=-1)
    return (distance * valid).sum() / (valid.sum() * 2 + 1e-4)


def giou_term(wh, reg, true_wh, true_reg, valid, tiny=1e-7):
    wh, true_wh = paddle.clip(wh, min=0.1), paddle.clip(true_wh, min=0.1)
    lo, hi = reg - wh / 2, reg + wh / 2
    true_lo, true_hi = true_reg - true_wh / 2, true_reg + true_wh / 2
    inner = F.relu(paddle.minimum(hi, true_hi) - paddle.maximum(lo, true_lo)).prod(axis=-1)
    outer = (paddle.maximum(hi, true_hi) - paddle.minimum(lo, true_lo)).prod(axis=-1)
    union = wh.prod(axis=-1) + true_wh.prod(axis=-1) - inner
    value = inner / (union + tiny) - (outer - union) / (outer + tiny)
    return paddle.sum((1 - value) * valid) / paddle.clip(valid.sum(), min=1.0)


def objective(pred, gt):
    wh, reg = pick(pred["size"], gt["index"]), pick(pred["offset"], gt["index"])
    terms = {
        "heat": heat_term(pred["heatmap"], gt["heatmap"]),
        "wh": l1_term(wh, gt["size"], gt["mask"]),
        "reg": l1_term(reg, gt["offset"], gt["mask"]),
        "giou": giou_term(wh, reg, gt["size"], gt["offset"], gt["mask"]),
    }
    total = sum(weight * terms[name] for name, weight in S.weights)
    return {
        "loss": total, "heatmap": terms["heat"], "size": terms["wh"], "offset": terms["reg"], "giou": terms["giou"],
    }
