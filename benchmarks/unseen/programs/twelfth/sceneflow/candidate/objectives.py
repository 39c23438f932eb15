"""The training loss and the figures of the evaluation."""
import paddle
from paddle.nn import functional as F

from geometry import nearest, pairwise, take
from settings import SETTINGS


def masked_mean(values, mask):
    return (values * mask).sum() / mask.sum()


def endpoint(flow, true, valid):
    return masked_mean(paddle.sqrt(((flow - true) ** 2).sum(axis=-1) + 1e-4), valid)


def charbonnier(d2, delta):
    return paddle.sqrt(d2 + delta * delta) - delta


def chamfer(warped, target, valid, delta):
    d2 = pairwise(warped, target)
    there = charbonnier(d2.min(axis=2), delta)
    back = charbonnier(d2.min(axis=1), delta)
    per_cloud = (there * valid).sum(axis=1) / valid.sum(axis=1) + back.mean(axis=1)
    return per_cloud.mean()


def smoothness(xyz, flow, k):
    idx = nearest(xyz, xyz, k + 1)[:, :, 1:]
    jump = (take(flow, idx) - flow.unsqueeze(2)).abs()
    return jump.sum(axis=-1).mean()


def flow_loss(outputs, labels, cfg=SETTINGS["loss"]):
    xyz, other = labels["source"][:, :, :3], labels["target"][:, :, :3]
    valid = labels["valid"]
    sup = sum(cfg[level] * endpoint(outputs[key], labels["flow"], valid)
              for level, key in (("fine", "flow"), ("coarse", "coarse")))
    cham = chamfer(xyz + outputs["flow"], other, valid, cfg["delta"])
    smooth = smoothness(xyz, outputs["flow"], cfg["k"])
    return {
        "loss": sup + cfg["chamfer"] * cham + cfg["smooth"] * smooth,
        "supervised": sup,
        "chamfer": cham,
        "smooth": smooth,
    }


def evaluate(outputs, labels):
    with paddle.no_grad():
        chosen = labels["valid"] > 0
        flow = paddle.masked_select(outputs["flow"], chosen.unsqueeze(-1).expand(outputs["flow"].shape)).reshape([-1, 3])
        true = paddle.masked_select(labels["flow"], chosen.unsqueeze(-1).expand(labels["flow"].shape)).reshape([-1, 3])
        error = paddle.linalg.norm(flow - true, axis=-1)
        rel = error / (paddle.linalg.norm(true, axis=-1) + 1e-4)

        def share(absolute, relative, above=False):
            hit = (error > absolute) | (rel > relative) if above else (error < absolute) | (rel < relative)
            return hit.astype("float64").mean()

        return {
            "epe": error.mean(),
            "median": paddle.sort(error)[(error.shape[0] - 1) // 2],
            "acc_strict": share(0.10, 0.10),
            "acc_relaxed": share(0.20, 0.20),
            "outliers": share(0.40, 0.80, above=True),
            "direction": F.cosine_similarity(flow, true, axis=-1).mean(),
        }
