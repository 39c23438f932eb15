import torch
import torch.nn as nn
import torch.nn.functional as F


def scatter_softmax(score, dst, n):
    """softmax over the incoming edges of each node; score [E, H]"""
    idx = dst[:, None].expand_as(score)
    top = torch.full((n, score.size(1)), float("-inf"), dtype=score.dtype).scatter_reduce(0, idx, score.detach(), "amax")
    ex = (score - top[dst]).exp()
    den = torch.zeros(n, score.size(1), dtype=score.dtype).scatter_add(0, idx, ex)
    return ex / (den[dst] + 1e-16)


class GATConv(nn.Module):
    def __init__(self, cin, cout, heads, concat=True, slope=0.2, dropout=0.1):
        super().__init__()
        self.h, self.c, self.concat, self.slope = heads, cout, concat, slope
        self.lin = nn.Linear(cin, heads * cout, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, cout))
        self.att_dst = nn.Parameter(torch.empty(1, heads, cout))
        self.att_edge = nn.Parameter(torch.empty(heads))
        self.bias = nn.Parameter(torch.zeros(heads * cout if concat else cout))
        self.res = nn.Linear(cin, heads * cout if concat else cout, bias=False)
        self.drop = nn.Dropout(dropout)
        for w in (self.lin.weight, self.res.weight, self.att_src, self.att_dst):
            nn.init.xavier_uniform_(w, gain=1.414)
        nn.init.normal_(self.att_edge, std=0.1)

    def forward(self, x, edge_index, edge_weight):
        src, dst = edge_index
        n = x.size(0)
        z = self.lin(x).view(n, self.h, self.c)
        a_src, a_dst = (z * self.att_src).sum(-1), (z * self.att_dst).sum(-1)
        e = F.leaky_relu(a_src[src] + a_dst[dst] + torch.log(edge_weight)[:, None] * self.att_edge, self.slope)
        alpha = self.drop(scatter_softmax(e, dst, n))
        out = torch.zeros_like(z).index_add(0, dst, z[src] * alpha[..., None])
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias + self.res(x), alpha


class GraphNorm(nn.Module):
    """GraphNorm (Cai et al.): the subtracted mean carries a learned share"""

    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.mean_scale = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        out = x - x.mean(0, keepdim=True) * self.mean_scale
        std = (out.pow(2).mean(0, keepdim=True) + self.eps).sqrt()
        return self.weight * out / std + self.bias


class GAT(nn.Module):
    def __init__(self, cin=8, hidden=8, heads=4, classes=3):
        super().__init__()
        self.conv1 = GATConv(cin, hidden, heads)
        self.norm1 = GraphNorm(hidden * heads)
        self.conv2 = GATConv(hidden * heads, classes, 2, concat=False)
        self.drop = nn.Dropout(0.2)
        self.edge_head = nn.Bilinear(hidden * heads, hidden * heads, 1)
        nn.init.normal_(self.edge_head.weight, std=0.02)
        nn.init.zeros_(self.edge_head.bias)

    def forward(self, x, edge_index, edge_weight):
        h, _ = self.conv1(self.drop(x), edge_index, edge_weight)
        h = F.elu(self.norm1(h))
        logits, alpha = self.conv2(self.drop(h), edge_index, edge_weight)
        link = self.edge_head(h[edge_index[0]], h[edge_index[1]]).squeeze(-1)
        return {"logits": logits, "alpha": alpha, "link": link}
