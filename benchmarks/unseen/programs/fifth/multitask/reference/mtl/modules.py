import torch
import torch.nn as nn
import torch.nn.functional as F

from .registry import BACKBONES, HEADS


class MaskedBatchNorm(nn.Module):
    """statistics over real tokens only; [N, C, T]"""

    def __init__(self, c, momentum=0.1, eps=1e-5):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight, self.bias = nn.Parameter(torch.ones(c)), nn.Parameter(torch.zeros(c))
        self.register_buffer("running_mean", torch.zeros(c))
        self.register_buffer("running_var", torch.ones(c))

    def forward(self, x, mask):
        if self.training:
            n = mask.sum()
            mean = (x * mask).sum((0, 2)) / n
            var = ((x - mean[:, None]) ** 2 * mask).sum((0, 2)) / n
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
                self.running_var.lerp_((var * n / (n - 1)).to(self.running_var.dtype), self.momentum)
        else:
            mean, var = self.running_mean, self.running_var
        y = (x - mean[:, None]) / torch.sqrt(var[:, None] + self.eps)
        return (y * self.weight[:, None] + self.bias[:, None]) * mask


@BACKBONES.register
class ConvText(nn.Module):
    def __init__(self, vocab, dim, kernels, n_dense, dropout, bn_momentum):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        nn.init.normal_(self.embed.weight, std=dim ** -0.5)
        self.convs = nn.ModuleList([nn.Conv1d(dim, dim, k, padding=k // 2) for k in kernels])
        self.bns = nn.ModuleList([MaskedBatchNorm(dim, bn_momentum) for _ in kernels])
        self.act = nn.PReLU(dim)
        self.dense = nn.Linear(n_dense, dim)
        for m in [*self.convs, self.dense]:
            nn.init.kaiming_uniform_(m.weight, nonlinearity="relu")
            nn.init.zeros_(m.bias)
        self.dropout = nn.Dropout(dropout)
        self.width = 3 * dim

    def forward(self, tokens, dense):
        mask = (tokens != 0).unsqueeze(1)
        m = mask.to(dense.dtype)
        x = self.embed(tokens).transpose(1, 2) * m
        for conv, bn in zip(self.convs, self.bns):
            x = x + self.act(bn(conv(x), m))
        avg = (x * m).sum(-1) / m.sum(-1).clamp(min=1)
        top = x.masked_fill(~mask, float("-inf")).amax(-1)
        return self.dropout(torch.cat([avg, top, torch.tanh(self.dense(dense))], dim=1))


@HEADS.register
class MLPHead(nn.Sequential):
    def __init__(self, width, hidden, out):
        super().__init__(nn.Linear(width, hidden), nn.Hardswish(), nn.Linear(hidden, out))
        for m in self:
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)


@HEADS.register
class GatedHead(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.fc = nn.Linear(width, 2 * out * 4)
        self.out = nn.Linear(out * 4, out)
        for m in (self.fc, self.out):
            nn.init.xavier_normal_(m.weight)
            nn.init.zeros_(m.bias)

    def forward(self, x):
        return F.softplus(self.out(F.glu(self.fc(x), dim=-1)), beta=2.0)


class MultiTask(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.backbone = BACKBONES.build(cfg["backbone"])
        self.heads = nn.ModuleDict({k: HEADS.build(c, self.backbone.width) for k, c in cfg["heads"].items()})
        self.log_vars = nn.Parameter(torch.zeros(len(cfg["heads"])))

    def forward(self, tokens, dense):
        z = self.backbone(tokens, dense)
        out = {k: h(z) for k, h in self.heads.items()}
        return {"click": out["click"][:, 0], "tags": out["tags"], "dwell": out["dwell"][:, 0], "log_vars": self.log_vars}
