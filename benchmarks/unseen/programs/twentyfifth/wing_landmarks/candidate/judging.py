"""Loss terms and scores, each a filed class."""
import numpy as np
import paddle
import paddle.nn.functional as F

from registry import Filed, Shelf
from settings import GRID, LOSS, SCORE


def weighted(values, labels):
    w = labels["vis"] * paddle.to_tensor(LOSS["importance"])
    return (values * w).sum() / paddle.clip(w.sum(), min=1.0)


class Heat(Filed):
    family, key = "loss", "heat"

    def __call__(self, out, lab):
        cell = (paddle.arange(GRID, dtype="float32") + 0.5) / GRID
        x, y = lab["xy"][:, :, 0, None, None], lab["xy"][:, :, 1, None, None]
        far = (cell[None, :] - x) ** 2 + (cell[:, None] - y) ** 2
        target = paddle.exp(-far / (2 * LOSS["sigma"] ** 2)).flatten(2)
        target = target / paddle.clip(target.sum(-1, keepdim=True), min=1e-6)
        logp = F.log_softmax(out["logits"].flatten(2), axis=-1)
        return weighted(F.kl_div(logp, target, reduction="none").sum(-1), lab)


class Coord(Filed):
    family, key = "loss", "coord"

    def __call__(self, out, lab):
        delta = LOSS["delta"]
        d = F.smooth_l1_loss(out["xy"], lab["xy"], reduction="none", delta=delta) / delta
        return weighted(d.sum(-1), lab)


class Vis(Filed):
    family, key = "loss", "vis"

    def __call__(self, out, lab):
        weight = paddle.full([out["vis"].shape[-1]], LOSS["pos_weight"])
        return F.binary_cross_entropy_with_logits(out["vis"], lab["vis"], pos_weight=weight)


def total_loss(out, lab):
    parts, total = {}, 0.0
    for key, factor in LOSS["mix"]:
        parts[key] = Shelf.make("loss", key)(out, lab)
        total = total + factor * parts[key]
    parts["loss"] = total
    return parts


class Distances(Filed):
    family, key = "score", "distances"

    def __call__(self, xy, prob, lab):
        d = np.linalg.norm(xy - lab["xy"], axis=-1) / lab["span"].reshape(-1, 1)
        seen = lab["vis"] > 0
        per = (d * seen).sum(1) / np.maximum(seen.sum(1), 1)
        found = {"nme": per.mean(), "nme_p90": np.quantile(per, SCORE["tail"])}
        for limit in SCORE["pck"]:
            found["pck%d" % int(100 * limit)] = (d[seen] <= limit).mean()
        return found


class Hidden(Filed):
    family, key = "score", "hidden"

    def __call__(self, xy, prob, lab):
        said = prob <= SCORE["visible"]
        true = lab["vis"] < 0.5
        hits = np.logical_and(said, true).sum()
        f1 = 2 * hits / max(said.sum() + true.sum(), 1)
        return {"hidden_f1": f1, "brier": np.square(prob - lab["vis"]).mean()}


def scores(out, lab):
    lab = {k: v.numpy() for k, v in lab.items()}
    xy, prob = out["xy"].numpy(), F.sigmoid(out["vis"]).numpy()
    found = {}
    for key in ("distances", "hidden"):
        found.update(Shelf.make("score", key)(xy, prob, lab))
    return {k: float(v) for k, v in found.items()}
