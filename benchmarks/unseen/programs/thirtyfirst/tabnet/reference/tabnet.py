"""TabNet (Arik & Pfister 2021): sequential sparse feature masks, GLU transformers, ghost batch norm."""
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
JOBS, TOWNS = ["clerk", "nurse", "pilot", "smith"], ["A", "B", "C"]
N_D = N_A = 6
STEPS, GAMMA, SPARSE, GHOST, BATCH, CLASSES = 3, 1.4, 1e-2, 8, 16, 3


def vector(r):
    num = [r[f"f{i}"] for i in range(5)]
    return torch.tensor(num), torch.tensor([JOBS.index(r["job"]), TOWNS.index(r["town"])])


class Rows(Dataset):
    def __init__(self, split):
        self.rows = [json.loads(line) for line in open(DATA / f"{split}.jsonl")]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return *vector(self.rows[i]), self.rows[i]["y"]


class Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        s, _ = z.sort(dim=-1, descending=True)
        k = torch.arange(1, z.size(-1) + 1, dtype=z.dtype)
        css = s.cumsum(-1) - 1
        support = (k * s > css).sum(-1, keepdim=True)
        tau = css.gather(-1, support - 1) / support
        p = (z - tau).clamp(min=0)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx, grad):
        on = (ctx.saved_tensors[0] > 0).to(grad.dtype)
        mean = (grad * on).sum(-1, keepdim=True) / on.sum(-1, keepdim=True)
        return on * (grad - mean)


class GhostBatchNorm(nn.Module):
    def __init__(self, dim, momentum=0.05):
        super().__init__()
        self.bn = nn.BatchNorm1d(dim, momentum=momentum)

    def forward(self, x):
        if not self.training:
            return self.bn(x)
        return torch.cat([self.bn(c) for c in x.split(GHOST)], dim=0)


class GLUBlock(nn.Module):
    def __init__(self, n_in, n_out, shared=None):
        super().__init__()
        self.fc = shared if shared is not None else make_fc(n_in, 2 * n_out)
        self.norm = GhostBatchNorm(2 * n_out)

    def forward(self, x):
        return F.glu(self.norm(self.fc(x)), dim=-1)


def make_fc(n_in, n_out):
    fc = nn.Linear(n_in, n_out, bias=False)
    nn.init.xavier_normal_(fc.weight, gain=((n_in + n_out) / (4 * n_in) ** 0.5) ** 0.5)
    return fc


class FeatureTransformer(nn.Module):
    """One shared layer and one of its own, half-scaled residual."""

    def __init__(self, n_in, shared):
        super().__init__()
        self.first = GLUBlock(n_in, N_D + N_A, shared)
        self.second = GLUBlock(N_D + N_A, N_D + N_A)

    def forward(self, x):
        h = self.first(x)
        return (h + self.second(h)) * 0.5**0.5


class TabNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.jobs, self.towns = nn.Embedding(len(JOBS), 2), nn.Embedding(len(TOWNS), 2)
        for e in (self.jobs, self.towns):
            nn.init.uniform_(e.weight, -1.0, 1.0)
        dim = 5 + 4
        self.norm = nn.BatchNorm1d(dim, momentum=0.05)
        shared = make_fc(dim, 2 * (N_D + N_A))
        self.transformers = nn.ModuleList(FeatureTransformer(dim, shared) for _ in range(STEPS + 1))
        self.masks = nn.ModuleList(nn.Sequential(make_fc(N_A, dim), GhostBatchNorm(dim)) for _ in range(STEPS))
        self.head = make_fc(N_D, CLASSES)

    def forward(self, num, cat):
        x = self.norm(torch.cat([num, self.jobs(cat[:, 0]), self.towns(cat[:, 1])], dim=1))
        prior, total, entropy, seen = torch.ones_like(x), 0.0, 0.0, 0.0
        a = self.transformers[0](x)[:, N_D:]
        for mask, transform in zip(self.masks, self.transformers[1:]):
            m = Sparsemax.apply(mask(a) * prior)
            entropy = entropy - (m * torch.log(m + 1e-10)).sum(1)
            prior = prior * (GAMMA - m)
            h = transform(m * x)
            d, a = F.relu(h[:, :N_D]), h[:, N_D:]
            total = total + d
            seen = seen + m * d.detach().sum(1, keepdim=True)
        return {"logits": self.head(total), "entropy": entropy / STEPS, "importance": seen}


def build_model():
    return TabNet()


def build_dataset(split):
    return Rows(split)


def build_dataloader(split):
    return DataLoader(Rows(split), batch_size=BATCH, shuffle=split == "train")


def loss(outputs, labels):
    logp = F.log_softmax(outputs["logits"], -1).gather(1, labels.view(-1, 1)).squeeze(1)
    focal = (-(1 - logp.exp()).pow(2) * logp).mean()
    sparse = outputs["entropy"].mean()
    return {"loss": focal + SPARSE * sparse, "focal": focal, "sparsity": sparse}


def metric(outputs, labels):
    pred = outputs["logits"].argmax(1)
    recall = [(pred[labels == k] == k).float().mean().item() for k in range(CLASSES) if (labels == k).any()]
    return {"balanced_accuracy": sum(recall) / len(recall), "mask_entropy": outputs["entropy"].mean().item()}


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=0.02, eps=1e-6)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.9)


def train_step(model, optimizer, batch):
    model.train()
    num, cat, y = batch
    out = loss(model(num, cat), y)
    optimizer.zero_grad()
    out["loss"].backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return {k: v.detach() for k, v in out.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    num, cat = (torch.stack(c) for c in zip(*map(vector, json.loads(Path(path).read_text()))))
    out = model(num, cat)
    imp = out["importance"] / out["importance"].sum(1, keepdim=True).clamp(min=1e-6)
    return {"proba": out["logits"].softmax(1).numpy(), "importance": imp.numpy()}
