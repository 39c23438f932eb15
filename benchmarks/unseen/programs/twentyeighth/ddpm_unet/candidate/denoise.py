# Noise prediction on 12x12 blobs, Paddle version.
import json
import math
import os

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn import initializer as I

_root = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(_root, "settings.json")) as f:
    OPT = json.load(f)
NET, DIFF, TRAIN = OPT["net"], OPT["diffusion"], OPT["train"]


def uniform_attr(fan_in):
    k = fan_in ** -0.5
    return paddle.ParamAttr(initializer=I.Uniform(-k, k))


def conv(cin, cout, k=3, stride=1, bias=True, zero=False):
    w = I.Constant(0.0) if zero else uniform_attr(cin * k * k)
    b = (I.Constant(0.0) if zero else uniform_attr(cin * k * k)) if bias else False
    return nn.Conv2D(cin, cout, k, stride=stride, padding=k // 2, weight_attr=w, bias_attr=b)


def dense(cin, cout):
    return nn.Linear(cin, cout, weight_attr=uniform_attr(cin), bias_attr=uniform_attr(cin))


def alpha_schedule():
    T, s = DIFF["T"], 0.008
    grid = np.arange(0, T + 1) / T
    f = np.cos((grid + s) / (1 + s) * np.pi * 0.5) ** 2
    return (f[1:] / f[0]).clip(1e-4, 0.9999).astype("float32")


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = paddle.exp(paddle.arange(half, dtype="float32") * (-math.log(10000.0) / half))
    args = t.astype("float32").unsqueeze(-1) * freqs.unsqueeze(0)
    return paddle.concat([paddle.sin(args), paddle.cos(args)], axis=-1)


class FiLMBlock(nn.Layer):
    def __init__(self, cin, cout):
        super().__init__()
        g = NET["norm_groups"]
        if cin != cout:
            self.shortcut = conv(cin, cout, k=1, bias=False)
        else:
            self.shortcut = None
        self.film = nn.Sequential(nn.Silu(), dense(NET["time_dim"], cout * 2))
        self.gn_in = nn.GroupNorm(g, cin)
        self.conv_in = conv(cin, cout)
        self.gn_out = nn.GroupNorm(g, cout)
        self.conv_out = conv(cout, cout)

    def forward(self, x, emb):
        y = self.conv_in(F.silu(self.gn_in(x)))
        gamma, beta = paddle.split(self.film(emb), 2, axis=-1)
        gamma, beta = [v.unsqueeze([2, 3]) for v in (gamma, beta)]
        y = self.gn_out(y)
        y = self.conv_out(F.silu(y + y * gamma + beta))
        res = x if self.shortcut is None else self.shortcut(x)
        return res + y


class Denoiser(nn.Layer):
    def __init__(self):
        super().__init__()
        lo, hi = NET["levels"]
        self.register_buffer("abar", paddle.to_tensor(alpha_schedule()))
        self.encoder = nn.LayerDict({"stem": conv(1, lo), "block": FiLMBlock(lo, lo), "down": conv(lo, lo, stride=2)})
        self.bottleneck = FiLMBlock(lo, hi)
        self.decoder = nn.LayerDict({"up": conv(hi, lo), "block": FiLMBlock(lo * 2, lo)})
        self.out_norm = nn.GroupNorm(NET["norm_groups"], lo)
        self.out_conv = conv(lo, 1, zero=True)
        d = NET["time_dim"]
        self.t_fc1, self.t_fc2 = dense(d, d), dense(d, d)

    def forward(self, x, t):
        emb = self.t_fc2(F.silu(self.t_fc1(timestep_embedding(t, NET["time_dim"]))))
        skip = self.encoder["block"](self.encoder["stem"](x), emb)
        h = self.bottleneck(self.encoder["down"](skip), emb)
        h = F.interpolate(h, scale_factor=2, mode="nearest")
        h = self.decoder["block"](paddle.concat([self.decoder["up"](h), skip], axis=1), emb)
        eps = self.out_conv(F.silu(self.out_norm(h)))
        ab = paddle.gather(self.abar, t).reshape([-1, 1, 1, 1])
        x0 = (x - paddle.sqrt(1.0 - ab) * eps) * paddle.rsqrt(ab)
        return {"eps": eps, "x0": paddle.clip(x0, min=-1.0, max=1.0)}


class BlobDataset(paddle.io.Dataset):
    def __init__(self, mode):
        super().__init__()
        with np.load(os.path.join(_root, "..", "data", "blobs.npz")) as z:
            self.x = z[mode]
        self.base = 10000 if mode == "val" else 0
        self.abar = alpha_schedule()

    def __getitem__(self, idx):
        rs = np.random.RandomState(self.base + idx)
        t = rs.randint(0, DIFF["T"])
        clean = (self.x[idx].astype("float32") / 127.5 - 1.0)[np.newaxis]
        eps = rs.randn(*clean.shape).astype("float32")
        a = self.abar[t]
        weight = np.minimum(a / (1 - a), DIFF["snr_cap"]) / DIFF["snr_cap"]
        noisy = clean * np.sqrt(a) + eps * np.sqrt(1 - a)
        return noisy, np.int64(t), {"eps": eps, "w": np.float32(weight)}

    def __len__(self):
        return self.x.shape[0]


def build_model():
    return Denoiser()


def build_dataset(split):
    return BlobDataset(split)


def build_dataloader(split):
    train = split == "train"
    return paddle.io.DataLoader(build_dataset(split), batch_size=TRAIN["batch_size"], shuffle=train, drop_last=train)


def loss(outputs, labels):
    # torch's smooth_l1(beta) == huber(delta) / delta
    delta = 0.5
    d = paddle.abs(outputs["eps"] - labels["eps"])
    h = paddle.where(d < delta, 0.5 * d * d / delta, d - 0.5 * delta)
    h = h.mean(axis=[1, 2, 3])
    return paddle.mean(h * (labels["w"] + 0.1))


def metric(outputs, labels):
    err = (outputs["eps"] - labels["eps"]).numpy()
    mse = float((err ** 2).mean())
    return {"mse": mse, "psnr": 10 * math.log10(4 / mse)}


def build_optimizer(model):
    skip = {p.name for n, p in model.named_parameters() if n.endswith("bias") or p.ndim == 1}
    sched = paddle.optimizer.lr.CosineAnnealingDecay(TRAIN["base_lr"], TRAIN["max_steps"] - TRAIN["warmup_steps"])
    sched = paddle.optimizer.lr.LinearWarmup(sched, TRAIN["warmup_steps"], 0.1 * TRAIN["base_lr"], TRAIN["base_lr"])
    return paddle.optimizer.AdamW(sched, TRAIN["beta1"], TRAIN["beta2"], parameters=model.parameters(),
                                  weight_decay=TRAIN["weight_decay"],
                                  apply_decay_param_fun=lambda name: name not in skip,
                                  grad_clip=nn.ClipGradByGlobalNorm(TRAIN["max_norm"]))


def build_scheduler(optimizer):
    return optimizer._learning_rate


_shadow = {}


@paddle.no_grad()
def _update_ema(model, d=TRAIN["ema_decay"]):
    for p in model.parameters():
        if p.name not in _shadow:
            _shadow[p.name] = p.clone()
        else:
            _shadow[p.name] = _shadow[p.name] * d + p * (1 - d)


def train_step(model, optimizer, batch):
    noisy, t, labels = batch
    cost = loss(model(noisy, t), labels)
    cost.backward()
    norm = paddle.sqrt(sum((p.grad ** 2).sum() for p in model.parameters()))
    optimizer.step()
    optimizer.clear_grad()
    _update_ema(model)
    return {"loss": float(cost), "grad_norm": float(norm)}


def predict(path, model):
    model.eval()
    with open(path) as f:
        x = np.array(json.load(f)["noise"], "float32").reshape(-1, 1, OPT["image"]["size"], OPT["image"]["size"])
    x, abar = paddle.to_tensor(x), model.abar.numpy()
    seq = np.arange(DIFF["T"] - 1, -1, -7)
    nxt = np.append(abar[seq[1:]], np.float32(1.0))
    with paddle.no_grad():
        for t, a in zip(seq, nxt):
            o = model(x, paddle.full([x.shape[0]], int(t), dtype="int64"))
            x = o["x0"] * float(np.sqrt(a)) + o["eps"] * float(np.sqrt(1 - a))
    return {"sample": x.numpy(), "steps": seq.tolist()}
