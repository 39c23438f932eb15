"""Disparity of a small rectified stereo rig."""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader, Dataset

HERE = os.path.dirname(os.path.abspath(__file__))
if HERE not in sys.path:
    sys.path.insert(0, HERE)
from volume import StereoNet, sample_right, smoothness  # noqa: E402

with open(os.path.join(HERE, "rig.json")) as f:
    CFG = json.load(f)
DATA = os.path.join(HERE, "..", "data")


def build_model():
    return StereoNet(CFG["model"])


def channels(view):
    """Brightness in [-1, 1] and a local contrast (census-like) channel."""
    g = view.astype(np.float32) / 127.5 - 1.0
    p = np.pad(g, 1, mode="edge")
    h, w = g.shape
    ring = np.stack([p[i:i + h, j:j + w] for i in range(3) for j in range(3) if (i, j) != (1, 1)])
    return np.stack([g, (ring < g).mean(0).astype(np.float32)])


class Pairs(Dataset):
    def __init__(self, split):
        cfg = CFG["data"]
        views = np.load(os.path.join(DATA, f"{split}_views.npy"))
        disp = np.load(os.path.join(DATA, f"{split}_disp.npy"))
        self.items = []
        for k, (pair, raw) in enumerate(zip(views, disp)):
            d = raw.astype(np.float32) * cfg["disparity_unit"]
            valid = (raw > 0) & (d <= cfg["max_disparity"])
            edge = cfg["border"]
            valid[:, :edge] = False
            valid[:, -edge:] = False
            if valid.mean() < cfg["min_valid"]:
                continue
            pair = pair.astype(np.float32)
            if cfg["exposure"][split] and k % 3 == 1:
                pair[1] = np.clip(pair[1] * 1.1 + 4.0, 0, 255)
            self.items.append((pair, d * valid, valid))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        pair, d, valid = self.items[i]
        labels = {"disp": torch.from_numpy(d), "valid": torch.from_numpy(valid.astype(np.float32))}
        return torch.from_numpy(channels(pair[0])), torch.from_numpy(channels(pair[1])), \
            {**labels, "grey": torch.from_numpy(pair[0] / 255.0)}


def build_dataset(split):
    return Pairs(split)


def build_dataloader(split):
    return DataLoader(Pairs(split), batch_size=CFG["data"]["batch"][split], shuffle=split == "train")


def loss(outputs, labels):
    c = CFG["loss"]
    d, valid = labels["disp"], labels["valid"]

    def masked(pred, target, mask):
        per = F.smooth_l1_loss(pred, target, beta=c["beta"], reduction="none")
        return (per * mask).sum() / mask.sum().clamp(min=1.0)

    fine = masked(outputs["fine"], d, valid)
    count = F.avg_pool2d(valid[:, None], 2)[:, 0]
    mean = F.avg_pool2d((d * valid)[:, None], 2)[:, 0] / count.clamp(min=0.25)
    coarse = masked(outputs["coarse"], mean, (count >= 0.75).float())
    smooth = smoothness(outputs["fine"], labels["grey"], c["edge_sharpness"])
    total = c["fine"] * fine + c["coarse"] * coarse + c["smooth"] * smooth
    return {"loss": total, "fine": fine, "coarse": coarse, "smooth": smooth}


def metric(outputs, labels):
    c = CFG["metric"]
    keep = labels["valid"] > 0
    truth = labels["disp"][keep].double()
    err = (outputs["fine"].detach()[keep].double() - truth).abs()
    result = {"epe": err.mean().item(), "rmse": err.pow(2).mean().sqrt().item()}
    for t in c["bad"]:
        result[f"bad{t:g}"] = (err > t).double().mean().item()
    outlier = (err > c["d1_abs"]) & (err > c["d1_rel"] * truth)
    result["d1"] = outlier.double().mean().item()
    per_image = [(outputs["fine"].detach()[b] - labels["disp"][b]).abs()[keep[b]].median().item()
                 for b in range(len(keep))]
    result["median_epe"] = float(np.mean(per_image))
    return result


class Heavy(Optimizer):
    """Nesterov momentum; decay is added to the gradient; the rate is inside of no buffer."""

    def __init__(self, params, lr, momentum, decay):
        super().__init__(params, dict(lr=lr, momentum=momentum, decay=decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = p.grad + group["decay"] * p
                state = self.state[p]
                if "v" not in state:
                    state["v"] = torch.zeros_like(p)
                state["v"].mul_(group["momentum"]).add_(g)
                p.sub_(group["lr"] * (g + group["momentum"] * state["v"]))


def build_optimizer(model):
    c = CFG["optim"]
    groups = [{"params": [], "lr": c["lr"], "decay": c["decay"]},
              {"params": [], "lr": c["lr"], "decay": 0.0},
              {"params": [], "lr": c["lr"] * c["volume_lr_factor"], "decay": c["decay"]}]
    for name, p in model.named_parameters():
        if name.startswith("volume."):
            groups[2]["params"].append(p)
        else:
            groups[1 if p.ndim == 1 else 0]["params"].append(p)
    return Heavy(groups, c["lr"], c["momentum"], c["decay"])


def build_scheduler(optimizer):
    s = CFG["schedule"]

    def factor(n):
        if n < s["warmup"]:
            return s["warmup_from"] + (1 - s["warmup_from"]) * n / s["warmup"]
        return s["gamma"] ** sum(n >= m for m in s["milestones"])
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    model.train()
    left, right, labels = batch
    optimizer.zero_grad()
    parts = loss(model(left, right), labels)
    parts["loss"].backward()
    for group in optimizer.param_groups:        # each group is clipped on its own
        torch.nn.utils.clip_grad_norm_(group["params"], CFG["optim"]["clip_norm"])
    optimizer.step()
    return {k: v.item() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    """Disparity of both views (the right one by mirroring), left-right check, depth in metres."""
    c = CFG["infer"]
    model.eval()
    pair = np.load(path).astype(np.float32)
    left, right = (torch.from_numpy(channels(v))[None] for v in pair)
    dl = model(left, right)["fine"]
    dr = model(right.flip(-1), left.flip(-1))["fine"].flip(-1)
    seen = (dl - sample_right(dr, dl)).abs() <= c["check_px"]
    depth = c["focal_px"] * c["baseline_m"] / dl.clamp(min=0.1)
    reliable = depth[seen]
    near = reliable.min() if reliable.numel() else torch.tensor(-1.0)
    return {"disparity": dl[0].numpy(), "right": dr[0].numpy(), "seen": seen[0].int().numpy(),
            "depth": torch.where(seen, depth, torch.zeros(()))[0].numpy(), "nearest": near.numpy(),
            "text": f"{100 * seen.float().mean().item():.1f}% consistent"}
