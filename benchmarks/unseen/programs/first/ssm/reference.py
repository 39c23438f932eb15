"""Selective state space language model (Mamba), small."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return y.type_as(x) * self.weight


class Mamba(nn.Module):
    def __init__(self, d, n=4, expand=2, conv=4, rank=3):
        super().__init__()
        di = expand * d
        self.di, self.n, self.rank, self.k = di, n, rank, conv
        self.in_proj = nn.Linear(d, 2 * di, bias=False)
        self.conv1d = nn.Conv1d(di, di, conv, groups=di, padding=conv - 1)
        self.x_proj = nn.Linear(di, rank + 2 * n, bias=False)
        self.dt_proj = nn.Linear(rank, di)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, n + 1).float().repeat(di, 1)))
        self.D = nn.Parameter(torch.ones(di))
        self.A_log._no_weight_decay = True
        self.D._no_weight_decay = True
        self.out_proj = nn.Linear(di, d, bias=False)
        dt = torch.exp(torch.rand(di) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        with torch.no_grad():
            self.dt_proj.bias.copy_(dt + torch.log(-torch.expm1(-dt)))

    def forward(self, u):
        B, L, _ = u.shape
        x, z = self.in_proj(u).chunk(2, -1)
        x = self.conv1d(x.transpose(1, 2))[..., :L].transpose(1, 2)
        x = F.silu(x)
        dt, Bm, Cm = self.x_proj(x).split([self.rank, self.n, self.n], -1)
        dt = F.softplus(self.dt_proj(dt))
        y = self.scan(x, dt, -torch.exp(self.A_log), Bm, Cm)
        y = y + x * self.D
        return self.out_proj(y * F.silu(z))

    def scan(self, x, dt, A, Bm, Cm):
        dA = torch.exp(dt.unsqueeze(-1) * A)
        dBx = dt.unsqueeze(-1) * Bm.unsqueeze(2) * x.unsqueeze(-1)
        h = torch.zeros_like(dBx[:, 0])
        ys = []
        for t in range(x.shape[1]):
            h = dA[:, t] * h + dBx[:, t]
            ys.append((h * Cm[:, t].unsqueeze(1)).sum(-1))
        return torch.stack(ys, 1)


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = RMSNorm(d)
        self.mixer = Mamba(d)

    def forward(self, x):
        return x + self.mixer(self.norm(x))


class LM(nn.Module):
    def __init__(self, vocab=23, d=10, layers=2):
        super().__init__()
        self.backbone = nn.ModuleDict({
            "embedding": nn.Embedding(vocab, d),
            "layers": nn.ModuleList([Layer(d) for _ in range(layers)]),
            "norm_f": RMSNorm(d),
        })
        self.lm_head = nn.Linear(d, vocab, bias=False)
        self.lm_head.weight = self.backbone["embedding"].weight
        self.hidden = []
        for layer in self.backbone["layers"]:
            layer.register_forward_hook(lambda m, i, o: self.hidden.append(o))

    def forward(self, tokens):
        self.hidden.clear()
        x = self.backbone["embedding"](tokens)
        for layer in self.backbone["layers"]:
            x = layer(x)
        return {"logits": self.lm_head(self.backbone["norm_f"](x)), "hidden": list(self.hidden)}


def build_model():
    return LM()


def loss(out, labels):
    logits = out["logits"][:, :-1].reshape(-1, 23)
    return F.cross_entropy(logits, labels[:, 1:].reshape(-1), ignore_index=-100)


def metric(out, labels):
    lp = out["logits"][:, :-1].log_softmax(-1)
    y = labels[:, 1:]
    keep = y != -100
    nll = -lp.gather(-1, y.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    top = lp.topk(5, -1).indices
    hit = (top == y.unsqueeze(-1)).any(-1)
    return {"ppl": math.exp((nll * keep).sum().item() / keep.sum().item()), "top5": hit[keep].double().mean().item()}


def build_optimizer(model):
    decay, no = [], []
    for n, p in model.named_parameters():
        (no if p.ndim < 2 or getattr(p, "_no_weight_decay", False) else decay).append(p)
    return torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": no, "weight_decay": 0.0}], lr=4e-3, betas=(0.9, 0.95))


def build_scheduler(opt):
    warm = torch.optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, total_iters=4)
    cos = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=8, eta_min=4e-4)
    return torch.optim.lr_scheduler.SequentialLR(opt, [warm, cos], milestones=[4])
