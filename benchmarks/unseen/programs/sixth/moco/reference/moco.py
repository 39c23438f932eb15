import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from .backbone import Encoder


class MoCo(nn.Module):
    """Momentum contrast with an ArcFace head on the queries."""

    def __init__(self, opts):
        super().__init__()
        self.m, self.t, self.K = opts.m, opts.t, opts.queue
        self.encoder_q = Encoder(opts.dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.centers = nn.Parameter(torch.empty(opts.classes, opts.dim))
        nn.init.xavier_uniform_(self.centers)
        self.register_buffer("queue", F.normalize(torch.randn(opts.dim, opts.queue), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data.mul_(self.m).add_(q.data, alpha=1.0 - self.m)

    @torch.no_grad()
    def dequeue_and_enqueue(self, keys):
        n, ptr = keys.size(0), int(self.queue_ptr)
        index = torch.arange(ptr, ptr + n) % self.K
        self.queue[:, index] = keys.t()
        self.queue_ptr[0] = (ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = self.encoder_q(im_q)
        with torch.no_grad():
            k = self.encoder_k(im_k)
        l_pos = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        cosine = F.linear(q, F.normalize(self.centers))
        return {"logits": torch.cat([l_pos, l_neg], dim=1) / self.t, "cosine": cosine, "q": q, "k": k}
