"""Query by humming: which tune was hummed (PyTorch)."""
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
from sound import CONF, Hums, fit, read_wav, spectrum, tune_tokens, tunes  # noqa: E402
from towers import Retriever  # noqa: E402

L, O = CONF["loss"], CONF["optim"]


def build_model():
    return Retriever()


def build_dataset(split):
    return Hums(split)


class Order(torch.utils.data.Sampler):
    def __init__(self, n):
        self.n, self.calls = n, 0

    def __len__(self):
        return self.n

    def __iter__(self):
        rng = np.random.default_rng(1234 + 10 * self.calls)
        self.calls += 1
        yield from rng.permutation(self.n).tolist()


def build_dataloader(split):
    data = build_dataset(split)
    sampler = Order(len(data)) if split == "train" else None
    return torch.utils.data.DataLoader(data, batch_size=O["batch"], sampler=sampler, drop_last=split == "train")


def loss(outputs, labels):
    a, t, scale = outputs["audio"], outputs["tune"], outputs["scale"]
    logits = scale * a @ t.T
    same = (labels["tune"][:, None] == labels["tune"][None]).float()
    n = len(same)
    hard = same / same.sum(1, keepdim=True)
    hard = (1 - L["smoothing"]) * hard + L["smoothing"] / n
    with torch.no_grad():
        guess = scale * outputs["teacher"] @ t.T
        to_tune = (1 - L["soft"]) * hard + L["soft"] * guess.softmax(1)
        to_audio = (1 - L["soft"]) * hard + L["soft"] * guess.T.softmax(1)
    contrast = 0.5 * (F.cross_entropy(logits, to_tune) + F.cross_entropy(logits.T, to_audio))
    match = (a - outputs["teacher"]).pow(2).sum(1).mean()
    key = F.huber_loss(outputs["key"], labels["key"], delta=L["key_delta"])
    return {"loss": contrast + L["match"] * match + L["key"] * key,
            "contrast": contrast, "match": match, "key": key}


def metric(outputs, labels):
    with torch.no_grad():
        tune = labels["tune"]
        first = [i for i in range(len(tune)) if tune[i] not in tune[:i]]
        sims = outputs["audio"] @ outputs["tune"][first].T
        right = tune[:, None] == tune[first][None]
        own = sims[right]
        rank = 1 + (sims > own[:, None]).sum(1)
        other = sims.masked_fill(right, -torch.inf).amax(1)
        key_error = (outputs["key"] - labels["key"]).abs() * L["key_scale"]
        return {"recall1": (rank <= 1).float().mean().item(),
                "recall3": (rank <= 3).float().mean().item(),
                "mrr": (1.0 / rank).mean().item(),
                "margin": (own - other).mean().item(),
                "key_mae": key_error.mean().item(),
                "key_in_tune": (key_error < 1.0).float().mean().item()}


def build_optimizer(model):
    groups = {"weights": [], "vectors": [], "embeddings": []}
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        if name in ("tune.pitch.weight", "tune.duration.weight"):
            groups["embeddings"].append(p)
        elif p.ndim == 1:
            groups["vectors"].append(p)
        else:
            groups["weights"].append(p)
    return torch.optim.SGD([
        {"params": groups["weights"], "weight_decay": O["decay"]},
        {"params": groups["vectors"]},
        {"params": groups["embeddings"], "lr": O["lr"] * O["embedding_lr"]},
    ], lr=O["lr"], momentum=O["momentum"], nesterov=True)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
        optimizer, T_0=O["first_cycle"], T_mult=O["cycle_factor"])


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    optimizer.zero_grad()
    parts = loss(model(*inputs), labels)
    parts["loss"].backward()
    norm = torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], O["clip"])
    optimizer.step()
    keep = CONF["model"]["teacher_keep"]
    with torch.no_grad():
        model.scale.clamp_(0.0, math.log(O["most_scale"]))
        for old, new in zip(model.teacher.parameters(), model.audio.parameters()):
            old.mul_(keep).add_(new, alpha=1 - keep)
    return {"loss": parts["loss"].detach(), "match": parts["match"].detach(), "norm": norm.detach()}


def predict(path, model):
    frames = spectrum(read_wav(path))
    size = CONF["audio"]["frames"]
    starts = list(range(0, max(len(frames) - size, 0) + 1, size // 2))
    if starts[-1] + size < len(frames):
        starts.append(len(frames) - size)
    pieces = [fit(frames[s:]) for s in starts]
    mel = torch.from_numpy(np.stack([p for p, _ in pieces]))
    n = torch.tensor([k for _, k in pieces])
    book = tunes()
    pitch, duration, notes = (torch.from_numpy(np.array(c)) for c in zip(*(tune_tokens(t["notes"]) for t in book)))
    was = model.training
    model.eval()
    with torch.no_grad():
        mask = torch.arange(size)[None] < n[:, None]
        audio = model.audio(model.norm(mel, mask), n)
        whole = F.normalize((audio * n[:, None]).sum(0), dim=0)
        sims = model.tune(pitch, duration, notes) @ whole
        share = (model.scale.exp() * sims).softmax(0)
        key = model.key(audio).median(0).values * L["key_scale"] + L["key_mean"]
    model.train(was)
    best = sims.argsort(descending=True)[:3].tolist()
    return {"best": [book[i]["name"] for i in best], "share": share.numpy(),
            "key": key.numpy(), "pieces": np.array([len(starts)])}
