import paddle
import paddle.nn.functional as F

from . import cfg

PIXELS = [1, 2, 3]


def mask_focal(logit, y):
    t = y["mask"]
    prob = F.sigmoid(logit)
    per_pixel = -0.75 * t * (1 - prob) ** 2 * F.log_sigmoid(logit) \
        - 0.25 * (1 - t) * prob ** 2 * F.log_sigmoid(-logit)
    return paddle.sum(per_pixel * y["valid"]) / paddle.sum(y["valid"])


def mask_dice(logit, y):
    p, t = F.sigmoid(logit) * y["valid"], y["mask"] * y["valid"]
    overlap = paddle.sum(p * t, axis=PIXELS)
    mass = paddle.sum(p ** 2, axis=PIXELS) + paddle.sum(t ** 2, axis=PIXELS)
    return paddle.mean(1 - (2 * overlap + 1.0) / (mass + 1.0))


def heat_focal(logit, y):
    prob = F.sigmoid(logit)
    at_centre = paddle.pow(1 - prob, 2) * F.log_sigmoid(logit)
    elsewhere = paddle.pow(1 - y["heat"], 4) * paddle.pow(prob, 2) * F.log_sigmoid(-logit)
    both = y["pos"] * at_centre + (1 - y["pos"]) * elsewhere
    return -both.sum() / paddle.clip(y["pos"].sum(), min=1.0)


def size_huber(size, y, beta=0.5):
    gap = paddle.abs(size - y["size"])
    cell = paddle.where(gap < beta, 0.5 * gap ** 2 / beta, gap - 0.5 * beta)
    return paddle.sum(cell * y["pos"]) / paddle.clip(2 * y["pos"].sum(), min=1.0)


def grain_criterion(out, y):
    terms = {"focal": mask_focal(out["mask"], y), "dice": mask_dice(out["mask"], y),
             "heat": heat_focal(out["heat"], y), "size": size_huber(out["size"], y)}
    total = sum(cfg.LOSS_WEIGHTS[k] * v for k, v in terms.items())
    return {**terms, "loss": total}
