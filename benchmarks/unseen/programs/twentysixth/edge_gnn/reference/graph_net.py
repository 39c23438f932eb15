"""Message passing over edge lists: energies of small molecules and the roles of their atoms."""
import json
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
ELEMENTS = {e: i for i, e in enumerate("CNOFS")}
HIDDEN, HEADS, ROUNDS, ROLES = 16, 2, 2, 3


def to_graph(rec):
    atoms = torch.tensor([ELEMENTS[c] for c in rec["atoms"]])
    pairs = torch.tensor(rec["bonds"]).T
    edges = torch.cat([pairs, pairs.flip(0)], dim=1)          # both directions
    length = torch.tensor(rec["length"], dtype=torch.float32).repeat(2)
    return atoms, edges, length


class Molecules(Dataset):
    def __init__(self, split):
        records = json.loads((DATA / "molecules.json").read_text())
        self.records = [r for i, r in enumerate(records) if (i % 5 == 4) == (split == "val")]

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        r = self.records[i]
        labels = {"energy": torch.tensor(r["energy"], dtype=torch.float32), "role": torch.tensor(r["role"])}
        return (*to_graph(r), torch.zeros(len(r["atoms"]), dtype=torch.long), labels)


def collate(samples):
    atoms, edges, lengths, owner, roles, offset = [], [], [], [], [], 0
    for g, (a, e, d, _, lab) in enumerate(samples):
        atoms.append(a)
        edges.append(e + offset)
        lengths.append(d)
        owner.append(torch.full_like(a, g))
        roles.append(lab["role"])
        offset += len(a)
    energy = torch.stack([s[-1]["energy"] for s in samples])
    return (torch.cat(atoms), torch.cat(edges, dim=1), torch.cat(lengths), torch.cat(owner),
            {"energy": energy, "role": torch.cat(roles)})


class EdgeAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.msg = nn.Linear(HIDDEN + 8, HIDDEN)
        self.att = nn.Parameter(torch.empty(HEADS, HIDDEN // HEADS))
        nn.init.normal_(self.att, std=0.3)
        self.update = nn.GRUCell(HIDDEN, HIDDEN)

    def forward(self, h, edges, basis):
        src, dst = edges
        m = F.leaky_relu(self.msg(torch.cat([h[src], basis], dim=-1)), 0.2)
        m = m.view(-1, HEADS, HIDDEN // HEADS)
        score = (m * self.att).sum(-1)
        index = dst[:, None].expand_as(score)
        top = torch.full((len(h), HEADS), float("-inf")).scatter_reduce(0, index, score.detach(), "amax")
        w = torch.exp(score - top[dst])
        total = torch.zeros(len(h), HEADS).index_add_(0, dst, w)
        w = w / (total[dst] + 1e-9)
        agg = torch.zeros_like(h).index_add_(0, dst, (m * w[..., None]).flatten(1))
        return self.update(agg, h)


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(ELEMENTS), HIDDEN)
        self.register_buffer("centres", torch.linspace(1.0, 1.7, 8))
        self.rounds = nn.ModuleList(EdgeAttention() for _ in range(ROUNDS))
        self.energy = nn.Sequential(nn.Linear(2 * HIDDEN, HIDDEN), nn.ELU(), nn.Linear(HIDDEN, 1))
        self.role = nn.Linear(HIDDEN, ROLES)
        self.log_var = nn.Parameter(torch.zeros(2))

    def forward(self, atoms, edges, length, owner):
        h = self.embed(atoms)
        basis = torch.exp(-40.0 * (length[:, None] - self.centres) ** 2)
        for layer in self.rounds:
            h = layer(h, edges, basis)
        graphs = int(owner.max()) + 1
        total = torch.zeros(graphs, HIDDEN).index_add_(0, owner, h)
        count = torch.bincount(owner, minlength=graphs).clamp(min=1)
        pooled = torch.cat([total, total / count[:, None]], dim=-1)
        return self.energy(pooled).squeeze(-1), self.role(h), self.log_var


def build_model():
    return GraphNet()


def build_dataset(split):
    return Molecules(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=8, shuffle=split == "train", collate_fn=collate)


def loss(outputs, labels):
    energy, role, log_var = outputs
    reg = F.smooth_l1_loss(energy, labels["energy"].view_as(energy), beta=0.5)
    cls = F.cross_entropy(role, labels["role"], weight=torch.tensor([0.6, 1.0, 1.6]))
    prec = torch.exp(-log_var)
    return {"loss": prec[0] * reg + prec[1] * cls + 0.5 * log_var.sum(), "energy": reg, "role": cls}


@torch.no_grad()
def metric(outputs, labels):
    energy, role, log_var = outputs
    truth = labels["energy"].view_as(energy)
    hits = role.argmax(-1) == labels["role"]
    out = {"mae": (energy - truth).abs().mean().item(),
           "rmse": F.mse_loss(energy, truth).sqrt().item(),
           "acc": hits.float().mean().item(),
           "sigma_energy": torch.exp(0.5 * log_var[0]).item()}
    for c in range(ROLES):
        mask = labels["role"] == c
        out[f"recall_{c}"] = (hits & mask).sum().item() / max(1, mask.sum().item())
    return out


def build_optimizer(model):
    slow = [model.log_var]
    fast = [p for n, p in model.named_parameters() if n != "log_var"]
    return torch.optim.Adam([{"params": fast}, {"params": slow, "lr": 1e-3, "weight_decay": 0.0}],
                            lr=5e-3, weight_decay=1e-4)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.985)


def train_step(model, optimizer, batch):
    model.train()
    parts = loss(model(*batch[:-1]), batch[-1])
    optimizer.zero_grad()
    parts["loss"].backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    optimizer.step()
    return {k: v.detach() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    graphs = json.loads(Path(path).read_text())["graphs"]
    energies, roles = [], []
    for g in graphs:
        atoms, edges, length = to_graph(g)
        e, r, _ = model(atoms, edges, length, torch.zeros_like(atoms))
        energies.append(float(e[0]))
        roles.append("".join("tbj"[k] for k in r.argmax(-1).tolist()))
    return {"energy": energies, "roles": roles, "formula": " ".join(g["atoms"] for g in graphs)}
