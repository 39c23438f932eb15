"""Momentum contrast with a supervised extra term, two towers."""
import math
import torch
from torch import nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, w=8, dim=6):
        super().__init__()
        self.conv1 = nn.Conv2d(3, w, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(w)
        self.conv2 = nn.Conv2d(w, 2 * w, 3, stride=1, padding=1, groups=2, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * w)
        self.pool = nn.AvgPool2d(3, stride=2, padding=1)
        self.se = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(2 * w, 4, 1), nn.ReLU(inplace=True), nn.Conv2d(4, 2 * w, 1), nn.Hardsigmoid())
        self.fc = nn.Sequential(nn.Linear(2 * w, 2 * w), nn.ReLU(inplace=True), nn.Linear(2 * w, dim))

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.pool(F.relu(self.bn2(self.conv2(x)), inplace=True))
        x = x * self.se(x)
        return F.normalize(self.fc(x.mean((2, 3))), dim=1)


class MoCo(nn.Module):
    def __init__(self, dim=6, K=32, m=0.99, T=0.2):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q, self.encoder_k = Tower(dim=dim), Tower(dim=dim)
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data.copy_(q.data)
            k.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))
        self.proto = nn.Parameter(torch.randn(4, dim))

    @torch.no_grad()
    def _momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data = k.data * self.m + q.data * (1.0 - self.m)

    @torch.no_grad()
    def _enqueue(self, keys):
        ptr, n = int(self.queue_ptr), keys.shape[0]
        self.queue[:, ptr:ptr + n] = keys.T
        self.queue_ptr[0] = (ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = self.encoder_q(im_q)
        with torch.no_grad():
            if self.training:
                self._momentum_update()
            k = self.encoder_k(im_k)
        pos = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        neg = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        logits = torch.cat([pos, neg], 1) / self.T
        if self.training:
            self._enqueue(k)
        cls = q @ F.normalize(self.proto, dim=1).T / 0.1
        return logits, cls, q


def build_model():
    return MoCo()


def supcon(z, y, t=0.3):
    s = z @ z.T / t
    eye = torch.eye(len(z), dtype=torch.bool)
    pos = (y[:, None] == y[None]) & ~eye
    logp = s - torch.logsumexp(s.masked_fill(eye, -1e9), 1, keepdim=True)
    n = pos.sum(1)
    keep = n > 0
    return -((logp * pos).sum(1)[keep] / n[keep]).mean()


def loss(out, y):
    logits, cls, z = out
    nce = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
    w = torch.tensor([1.0, 2.0, 0.5, 1.5], dtype=cls.dtype)
    return nce + 0.5 * F.cross_entropy(cls, y, weight=w) + 0.1 * supcon(z, y)


def metric(out, y):
    """contrastive top-1/top-5 and mean class accuracy"""
    logits, cls, _ = out
    rank = (logits > logits[:, :1]).sum(1)
    pred = cls.argmax(1)
    accs = [(pred[y == c] == c).double().mean().item() for c in y.unique()]
    return {"top1": (rank < 1).double().mean().item(), "top5": (rank < 5).double().mean().item(), "mean_class_acc": sum(accs) / len(accs)}


def build_optimizer(model):
    params = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.SGD(params, lr=0.03, momentum=0.9, weight_decay=1e-4)


def build_scheduler(opt):
    def f(step):
        return 0.5 * (1.0 + math.cos(math.pi * step / 20)) * (0.1 if step >= 10 else 1.0)
    return torch.optim.lr_scheduler.LambdaLR(opt, f)
