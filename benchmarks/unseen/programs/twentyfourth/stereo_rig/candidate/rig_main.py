"""Stereo rig: data, objective, training and inference (Paddle)."""
import os
import sys

import numpy as np
import paddle
from paddle.optimizer import Momentum
from paddle.optimizer.lr import LinearWarmup, PiecewiseDecay

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rig_layers  # noqa: E402
from rig_settings import DATA, number, numbers, word  # noqa: E402


def build_model():
    return rig_layers.Rig()


def to_input(view):
    grey = view.astype("float32") / 127.5 - 1.0
    h, w = grey.shape
    padded = np.pad(grey, ((1, 1), (1, 1)), mode="edge")
    below = np.zeros((h, w), "float32")
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if dy or dx:
                below += padded[1 + dy:1 + dy + h, 1 + dx:1 + dx + w] < grey
    return np.stack([grey, below / 8.0]).astype("float32")


class StereoPairs(paddle.io.Dataset):
    def __init__(self, split):
        self.views = np.load(DATA / (split + "_views.npy")).astype("float32")
        raw = np.load(DATA / (split + "_disp.npy"))
        self.disp = raw.astype("float32") * number("data", "unit")
        inner = np.zeros(raw.shape[2], bool)
        margin = number("data", "margin")
        inner[margin:raw.shape[2] - margin] = True
        self.valid = (raw != 0) & (self.disp <= number("data", "ceiling")) & inner
        if split in word("data", "expose").split():
            self.views[1::3, 1] = np.minimum(self.views[1::3, 1] * np.float32(1.1) + 4.0, 255.0)
        self.index = np.flatnonzero(self.valid.mean(axis=(1, 2)) >= number("data", "least_valid"))

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        k = self.index[i]
        left, right = self.views[k]
        mask = self.valid[k].astype("float32")
        labels = {"disp": (self.disp[k] * mask).astype("float32"), "valid": mask, "grey": left / 255.0}
        return to_input(left), to_input(right), labels


def build_dataset(split):
    return StereoPairs(split)


def build_dataloader(split):
    return paddle.io.DataLoader(StereoPairs(split), batch_size=number("data", "batch_" + split),
                                shuffle=split == "train")


def bent(pred, target, mask):
    """Quadratic below the knee, linear above, mean over the mask."""
    knee = number("loss", "knee")
    gap = (pred - target).abs()
    per = paddle.where(gap < knee, 0.5 * gap * gap / knee, gap - 0.5 * knee)
    return (per * mask).sum() / paddle.clip(mask.sum(), min=1.0)


def loss(outputs, labels):
    d, valid = labels["disp"], labels["valid"]
    b, h, w = d.shape
    fine = bent(outputs["fine"], d, valid)
    blocks = [b, h // 2, 2, w // 2, 2]
    count = valid.reshape(blocks).sum(axis=[2, 4])
    mean = (d * valid).reshape(blocks).sum(axis=[2, 4]) / paddle.clip(count, min=1.0)
    coarse = bent(outputs["coarse"], mean, (count > 2.5).astype("float32"))
    smooth = rig_layers.edge_aware(outputs["fine"], labels["grey"], number("loss", "edge"))
    parts = {"fine": fine, "coarse": coarse, "smooth": smooth}
    total = sum(number("loss", "w_" + k) * v for k, v in parts.items())
    return {"loss": total, **parts}


def metric(outputs, labels):
    fine = outputs["fine"].detach().numpy()
    disp, keep = labels["disp"].numpy(), labels["valid"].numpy() > 0
    truth = disp[keep].astype("float64")
    err = np.abs(fine[keep].astype("float64") - truth)
    scores = {"epe": float(err.mean()), "rmse": float(np.sqrt(np.square(err).mean()))}
    for t in numbers("metric", "bad"):
        scores["bad%g" % t] = float((err > t).mean())
    bound = np.maximum(number("metric", "d1_pixels"), number("metric", "d1_share") * truth)
    scores["d1"] = float((err > bound).mean())
    middle = []
    for f, d, k in zip(fine, disp, keep):
        e = np.sort(np.abs(f - d)[k])
        middle.append(e[(e.size - 1) // 2])         # torch.median: the lower of the two
    scores["median_epe"] = float(np.mean(middle))
    return scores


def groups_of(model):
    weights, vectors, volume = [], [], []
    for name, p in model.named_parameters():
        if name.split(".")[0] == "volume":
            volume.append(p)
        elif len(p.shape) == 1:
            vectors.append(p)
        else:
            weights.append(p)
    return weights, vectors, volume


def build_optimizer(model):
    weights, vectors, volume = groups_of(model)
    rate, decay = number("optim", "rate"), number("optim", "decay")
    drops = [int(d) for d in numbers("optim", "drops")]
    values = [rate * number("optim", "drop_by") ** k for k in range(len(drops) + 1)]
    warm = number("optim", "warm_steps")
    # LinearWarmup restarts the inner schedule at zero when the warm-up is over
    steady = PiecewiseDecay([d - warm for d in drops], values)
    plan = LinearWarmup(steady, warm, number("optim", "warm_start"), rate)
    clip = paddle.nn.ClipGradByGlobalNorm(number("optim", "clip"))
    return Momentum(plan, momentum=number("optim", "momentum"), use_nesterov=True, parameters=[
        {"params": weights, "weight_decay": decay, "grad_clip": clip},
        {"params": vectors, "weight_decay": 0.0, "grad_clip": clip},
        {"params": volume, "weight_decay": decay, "grad_clip": clip,
         "learning_rate": number("optim", "volume_factor")}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    left, right, labels = batch
    parts = loss(model(left, right), labels)
    parts["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return {k: float(v) for k, v in parts.items()}


def predict(path, model):
    model.eval()
    left, right = [paddle.to_tensor(to_input(v)).unsqueeze(0) for v in np.load(path)]
    # both directions in one batch: the second pair is mirrored and swapped
    first = paddle.concat([left, paddle.flip(right, axis=[3])])
    second = paddle.concat([right, paddle.flip(left, axis=[3])])
    with paddle.no_grad():
        out = model(first, second)["fine"]
        dl, dr = out[0:1], paddle.flip(out[1:2], axis=[2])
        gap = (dl - rig_layers.look_up(dr, dl)).abs()
    seen = gap.numpy()[0] <= number("infer", "tolerance")
    dl = dl.numpy()[0]
    depth = number("infer", "focal") * number("infer", "baseline") / np.maximum(dl, np.float32(0.1))
    return {"disparity": dl, "right": dr.numpy()[0], "seen": seen.astype("int32"),
            "depth": np.where(seen, depth, 0.0).astype("float32"),
            "nearest": depth[seen].min() if seen.any() else np.float32(-1.0),
            "text": "%.1f%% consistent" % (100.0 * seen.mean())}
