"""Gated attention graph network, graph level regression of two targets. Batches are disjoint unions of graphs."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_graph(seed):
    g = np.random.default_rng(1000 + seed)
    n = int(g.integers(4, 9))
    x = g.standard_normal((n, 5)).astype("float32")
    adj = np.triu(g.random((n, n)) < 0.4, 1)
    src, dst = np.nonzero(adj)
    src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
    kind = g.integers(0, 3, len(src) // 2)
    kind = np.concatenate([kind, kind])
    y = np.array([x.sum(), len(src)], dtype="float32")
    return x, np.stack([src, dst]).astype("int64"), kind.astype("int64"), y


class Graphs(torch.utils.data.Dataset):
    def __init__(self, split):
        self.ids = range(0, 16) if split == "train" else range(16, 28)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        x, e, k, y = make_graph(self.ids[i])
        deg = np.bincount(e[1], minlength=len(x))
        x = np.concatenate([x, np.log1p(deg)[:, None]], 1)
        norm = np.linalg.norm(x, axis=1, keepdims=True)
        x = x / np.maximum(norm / 2.5, 1.0)    # only long rows are shortened
        return {"x": x.astype("float32"), "edges": e, "kind": k, "y": y}


def collate(items):
    offset, xs, es, ks, bs, ys = 0, [], [], [], [], []
    for i, d in enumerate(items):
        xs.append(d["x"])
        es.append(d["edges"] + offset)
        ks.append(d["kind"])
        bs.append(np.full(len(d["x"]), i))
        ys.append(d["y"])
        offset += len(d["x"])
    return {
        "x": torch.from_numpy(np.concatenate(xs)),
        "edges": torch.from_numpy(np.concatenate(es, 1)),
        "kind": torch.from_numpy(np.concatenate(ks)),
        "batch": torch.from_numpy(np.concatenate(bs)),
        "y": torch.from_numpy(np.stack(ys)),
    }


def build_dataset(split):
    return Graphs(split)


def build_dataloader(split):
    return torch.utils.data.DataLoader(Graphs(split), batch_size=5, collate_fn=collate)


def scatter_softmax(e, idx, n):
    m = torch.full((n, e.shape[1]), -torch.inf, dtype=e.dtype).scatter_reduce(0, idx[:, None].expand_as(e), e, "amax")
    w = torch.exp(e - m[idx])
    s = torch.zeros(n, e.shape[1], dtype=e.dtype).index_add_(0, idx, w)
    return w / (s[idx] + 1e-16)


class GATLayer(nn.Module):
    def __init__(self, d, heads=2, kinds=3):
        super().__init__()
        self.h, self.c = heads, d // heads
        self.lin = nn.Linear(d, d, bias=False)
        self.kind = nn.Embedding(kinds, d)
        self.att_src = nn.Parameter(torch.empty(1, heads, self.c))
        self.att_dst = nn.Parameter(torch.empty(1, heads, self.c))
        self.bias = nn.Parameter(torch.zeros(d))
        nn.init.xavier_uniform_(self.att_src)
        nn.init.xavier_uniform_(self.att_dst)
        self.gru = nn.GRUCell(d, d)
        self.norm = nn.BatchNorm1d(d, momentum=0.2)

    def forward(self, x, edges, kind):
        src, dst = edges
        n = x.shape[0]
        z = self.lin(x).view(n, self.h, self.c)
        a = (z * self.att_src).sum(-1)[src] + (z * self.att_dst).sum(-1)[dst]
        a = scatter_softmax(F.leaky_relu(a, 0.2), dst, n)
        msg = (z[src] + self.kind(kind).view(-1, self.h, self.c)) * a.unsqueeze(-1)
        agg = torch.zeros(n, self.h, self.c, dtype=x.dtype).index_add_(0, dst, msg)
        agg = F.elu(agg.flatten(1) + self.bias)
        return self.norm(self.gru(agg, x))


class GraphNet(nn.Module):
    def __init__(self, din=6, d=12, layers=2, targets=2):
        super().__init__()
        self.inp = nn.Linear(din, d)
        self.virtual = nn.Parameter(torch.zeros(d))
        self.layers = nn.ModuleList([GATLayer(d) for _ in range(layers)])
        self.mlp_v = nn.Sequential(nn.Linear(d, d), nn.ReLU())
        self.gate = nn.Linear(d, 1)
        self.readout = nn.Sequential(nn.Linear(3 * d, d), nn.Softplus(), nn.Linear(d, targets))

    def forward(self, x, edges, kind, batch):
        B = int(batch.max()) + 1
        h = self.inp(x)
        v = self.virtual.expand(B, -1)
        cnt = torch.bincount(batch, minlength=B).to(h.dtype)[:, None]
        for layer in self.layers:
            h = h + v[batch]
            h = layer(h, edges, kind)
            mean = torch.zeros_like(v).index_add(0, batch, h) / cnt
            v = v + self.mlp_v(mean)
        g = scatter_softmax(self.gate(h), batch, B)
        att = torch.zeros_like(v).index_add(0, batch, g * h)
        mx = torch.full_like(v, -torch.inf).scatter_reduce(0, batch[:, None].expand_as(h), h, "amax")
        return self.readout(torch.cat([att, mx, v], 1))


def build_model():
    return GraphNet()


def loss(out, y):
    return torch.log(torch.cosh(out - y)).mean()


def metric(out, y):
    out, y = out.detach().numpy().astype("float64"), y.numpy().astype("float64")
    c = [np.corrcoef(out[:, k], y[:, k])[0, 1] for k in range(y.shape[1])]
    return {"pearson": float(np.mean(c)), "mae": float(np.abs(out - y).mean(0).sum())}


class Lion:
    """Chen et al. 2023"""

    def __init__(self, params, lr, betas=(0.9, 0.99), wd=0.1):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.wd = lr, betas, wd
        self.m = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self, set_to_none=True):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        b1, b2 = self.betas
        for p, m in zip(self.params, self.m):
            if p.grad is None:
                continue
            g = p.grad
            p.mul_(1 - self.lr * self.wd)
            u = m * b1 + g * (1 - b1)
            p.add_(u / (u.abs() + 1e-3), alpha=-self.lr)     # smooth sign
            m.mul_(b2).add_(g, alpha=1 - b2)


def build_optimizer(model):
    return Lion(model.parameters(), lr=1e-3)
