"""Slot attention (Locatello et al. 2020): rebuild small scenes and predict the set of their objects."""
import json
from collections import ChainMap
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
DEFAULTS = dict(size=12, slots=4, dim=20, iters=3, hidden=32, eps=1e-6, batch=6, lr=3e-3, warmup=14, half_life=40,
                clip=1.0, set_weight=0.5, look_k=3, look_alpha=0.5)
C = ChainMap({"eps": 1e-5}, DEFAULTS)
SHAPES = ("disc", "square")


def grid(n):
    r = torch.linspace(0, 1, n)
    y, x = torch.meshgrid(r, r, indexing="ij")
    return torch.stack([x, y, 1 - x, 1 - y], -1)


class SoftPosition(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.proj = nn.Linear(4, dim)
        self.register_buffer("grid", grid(n)[None])

    def forward(self, x):                                 # [B, H, W, D]
        return x + self.proj(self.grid)


class SlotAttention(nn.Module):
    def __init__(self, dim, slots, iters, hidden):
        super().__init__()
        self.iters, self.scale = iters, dim ** -0.5
        self.init_slots = nn.Parameter(torch.randn(1, slots, dim) * 0.3)
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(dim, dim)
        self.norm_in, self.norm_mlp = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim, bias=False)       # a shift common to all slots cancels in the softmax
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, dim))

    def step(self, slots, k, v):
        q = self.to_q(self.norm_slots(slots)) * self.scale
        attn = torch.einsum("bnd,bsd->bns", k, q).softmax(-1) + C["eps"]
        upd = torch.einsum("bns,bnd->bsd", attn / attn.sum(1, keepdim=True), v)
        b, s, d = slots.shape
        slots = self.gru(upd.reshape(-1, d), slots.reshape(-1, d)).view(b, s, d)
        return slots + self.mlp(self.norm_mlp(slots)), attn

    def forward(self, x):
        x = self.norm_in(x)
        k, v = self.to_k(x), self.to_v(x)
        slots = self.init_slots.expand(len(x), -1, -1)
        for _ in range(self.iters - 1):
            slots, _ = self.step(slots, k, v)
        return self.step(slots.detach() + self.init_slots - self.init_slots.detach(), k, v)


class SceneModel(nn.Module):
    def __init__(self):
        super().__init__()
        d = C["dim"]
        self.encoder = nn.Sequential(nn.Conv2d(1, d, 5, padding="same"), nn.ReLU(), nn.Conv2d(d, d, 3, padding="same"),
                                     nn.ReLU())
        self.pos_enc, self.pos_dec = SoftPosition(C["size"], d), SoftPosition(C["size"] // 4, d)
        self.feat = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.attention = SlotAttention(d, C["slots"], C["iters"], C["hidden"])
        self.decoder = nn.Sequential(nn.ConvTranspose2d(d, d // 2, 4, 2, 1), nn.ELU(),
                                     nn.ConvTranspose2d(d // 2, 2, 4, 2, 1, bias=False))
        self.props = nn.Linear(d, 4 + len(SHAPES))
        self.apply(self.init)

    @staticmethod
    def init(m):
        if isinstance(m, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.xavier_uniform_(m.weight)
            if m.bias is not None:
                nn.init.zeros_(m.bias)

    def forward(self, image):
        b, n = len(image), C["size"] // 4
        h = self.pos_enc(self.encoder(image).permute(0, 2, 3, 1))
        slots, attn = self.attention(self.feat(h.flatten(1, 2)))
        z = slots.flatten(0, 1)[:, None, None].expand(-1, n, n, -1)
        out = self.decoder(self.pos_dec(z).permute(0, 3, 1, 2)).unflatten(0, (b, C["slots"]))
        rgb, alpha = out.split(1, dim=2)
        alpha = alpha.softmax(1)
        p = self.props(slots)
        return {"recon": (rgb * alpha).sum(1), "masks": alpha[:, :, 0], "attention": attn,
                "objects": torch.cat([p[..., :4].sigmoid(), p[..., 4:]], -1)}


def render(objs, n):
    img, seg = np.full((n, n), 0.1, np.float32), np.zeros((n, n), np.int64)
    yy, xx = np.mgrid[:n, :n]
    for i, o in enumerate(objs):
        dx, dy = xx - o["x"] * (n - 1), yy - o["y"] * (n - 1)
        inside = dx ** 2 + dy ** 2 <= o["r"] ** 2 if o["shape"] == "disc" else np.maximum(abs(dx), abs(dy)) <= o["r"]
        img[inside], seg[inside] = o["shade"], i + 1
    return img, seg


class Scenes(Dataset):
    def __init__(self, split):
        self.scenes = json.loads((DATA / "scenes.json").read_text())[split]

    def __len__(self):
        return len(self.scenes)

    def __getitem__(self, i):
        img, seg = render(self.scenes[i], C["size"])
        t = torch.zeros(C["slots"], 4 + len(SHAPES))
        for row, o in zip(t, self.scenes[i]):
            row[:4] = torch.tensor([o["x"], o["y"], o["shade"], 1.0])
            row[4 + SHAPES.index(o["shape"])] = 1
        x = torch.from_numpy(img)[None]
        return x, {"image": x.clone(), "objects": t, "seg": torch.from_numpy(seg)}


def build_model():
    return SceneModel()


def build_dataset(split):
    return Scenes(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), C["batch"], shuffle=split == "train", drop_last=True)


def pair_cost(pred, true):
    """Cost of every predicted with every true object, [B, S, S]; absent objects count by presence only."""
    p, t = pred.unsqueeze(2), true.unsqueeze(1)
    here = t[..., 3]
    geo = F.huber_loss(p[..., :3].expand(-1, -1, t.size(2), -1), t[..., :3].expand(-1, p.size(1), -1, -1),
                       reduction="none", delta=0.2).sum(-1)
    kind = -(t[..., 4:] * p[..., 4:].log_softmax(-1)).sum(-1)
    there = F.binary_cross_entropy(p[..., 3].expand(-1, -1, t.size(2)), here.expand(-1, p.size(1), -1),
                                   reduction="none")
    return (5 * geo + 0.5 * kind) * here + there


def match(cost):
    return torch.stack([torch.as_tensor(linear_sum_assignment(c)[1]) for c in cost.detach().cpu().numpy()])


def loss(outputs, labels):
    rec = F.mse_loss(outputs["recon"], labels["image"], reduction="none").flatten(1).sum(1).mean()
    cost = pair_cost(outputs["objects"], labels["objects"])
    sets = cost.gather(2, match(cost)[..., None]).sum((1, 2)).mean()
    return {"loss": rec + C["set_weight"] * sets, "recon": rec, "set": sets}


@torch.no_grad()
def metric(outputs, labels):
    pred, true = outputs["objects"], labels["objects"]
    idx = match(pair_cost(pred, true))
    true = true.gather(1, idx[..., None].expand_as(true))
    here = true[..., 3] > 0.5
    dist = (pred[..., :2] - true[..., :2]).norm(dim=-1)[here].mean()
    kind = (pred[..., 4:].argmax(-1) == true[..., 4:].argmax(-1))[here].float().mean()
    seg = outputs["masks"].argmax(1)
    ari = [fg_ari(a[b > 0].numpy(), b[b > 0].numpy()) for a, b in zip(seg, labels["seg"])]
    return {"distance": dist.item(), "shape_acc": kind.item(), "fg_ari": float(np.mean(ari))}


def fg_ari(a, b):
    n = len(a)
    same_a, same_b = a[:, None] == a[None], b[:, None] == b[None]
    both, sa, sb = ((m.sum() - n) / 2 for m in (same_a & same_b, same_a, same_b))
    pairs = n * (n - 1) / 2
    expected = sa * sb / pairs if pairs else 0.0
    top = (sa + sb) / 2
    return 1.0 if top == expected else float((both - expected) / (top - expected))


def add_lookahead(optimizer, k, alpha):
    slow, count = {}, [0]

    def before(opt, args, kwargs):
        if not slow:
            slow.update({p: p.detach().clone() for g in opt.param_groups for p in g["params"]})

    def after(opt, args, kwargs):
        count[0] += 1
        if count[0] % k == 0:
            with torch.no_grad():
                for p, s in slow.items():
                    s.add_(p - s, alpha=alpha)
                    p.copy_(s)

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(after)
    return optimizer


def build_optimizer(model):
    gru = list(model.attention.gru.parameters())
    ids = {id(p) for p in gru}
    return add_lookahead(torch.optim.Adam(
        [{"params": [p for p in model.parameters() if id(p) not in ids]}, {"params": gru, "lr": C["lr"] * 0.3}],
        lr=C["lr"], betas=(0.85, 0.99), amsgrad=True), C["look_k"], C["look_alpha"])


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda t: min(1.0, (t + 1) / C["warmup"]) * 0.5 ** (t / C["half_life"]))


def train_step(model, optimizer, batch):
    image, labels = batch
    optimizer.zero_grad()
    parts = loss(model(image), labels)
    parts["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), C["clip"])
    optimizer.step()
    return {**{k: v.detach() for k, v in parts.items()}, "norm": norm}


@torch.no_grad()
def predict(path, model):
    img = torch.tensor(json.loads(Path(path).read_text())["image"])[None, None]
    model.eval()
    out = model(img)
    obj = out["objects"][0]
    return {"mask": out["masks"][0].argmax(0).numpy(), "recon": out["recon"][0, 0].numpy(), "present": obj[:, 3].numpy(),
            "shapes": " ".join(SHAPES[k] for k in obj[:, 4:].argmax(-1))}
