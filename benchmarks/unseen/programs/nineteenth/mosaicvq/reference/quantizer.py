import torch
import torch.nn.functional as F
from torch import nn


class ProductQuantizer(nn.Module):
    """Channels are cut into groups, each with a codebook that follows an exponential average."""

    def __init__(self, dim, groups, codes, decay=0.9, eps=1e-3):
        super().__init__()
        self.groups, self.codes, self.decay, self.eps = groups, codes, decay, eps
        book = torch.randn(groups, codes, dim // groups) * 0.5
        self.register_buffer("codebook", book)
        self.register_buffer("count", torch.ones(groups, codes))
        self.register_buffer("total", book.clone())

    @torch.no_grad()
    def update(self, flat, hot):
        self.count.mul_(self.decay).add_(hot.sum(1), alpha=1 - self.decay)
        self.total.mul_(self.decay).add_(hot.transpose(1, 2) @ flat, alpha=1 - self.decay)
        n = self.count.sum(1, keepdim=True)
        smooth = (self.count + self.eps) / (n + self.codes * self.eps) * n
        self.codebook.copy_(self.total / smooth.unsqueeze(-1))

    def forward(self, z):
        b, c, h, w = z.shape
        flat = z.view(b, self.groups, c // self.groups, h * w).permute(1, 0, 3, 2).reshape(self.groups, b * h * w, -1)
        dist = flat.pow(2).sum(-1, keepdim=True) - 2 * flat @ self.codebook.transpose(1, 2) + self.codebook.pow(2).sum(-1).unsqueeze(1)
        codes = dist.argmin(-1)
        hot = F.one_hot(codes, self.codes).to(flat.dtype)
        q = hot @ self.codebook
        if self.training:
            self.update(flat.detach(), hot)
        q = q.view(self.groups, b, h * w, -1).permute(1, 0, 3, 2).reshape(b, c, h, w)
        return q, codes.view(self.groups, b, h, w).transpose(0, 1)
