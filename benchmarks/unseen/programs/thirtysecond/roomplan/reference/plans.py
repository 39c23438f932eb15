"""What are the rooms of a floor plan?  A small relational attention network, written with functions."""
import json
import math
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

DATA = Path(__file__).resolve().parent.parent / "data"
ROOMS = ["bath", "bedroom", "hall", "kitchen", "living"]
DWELLINGS = ["flat", "terrace", "detached"]
RELATION = {"none": 0, "door": 1, "opening": 2, "wall": 3, "self": 4}
MOST, WIDTH, HEADS, ROUNDS = 9, 16, 4, 2
STEPS_BACK = 3
FEATURES = 5 + STEPS_BACK


# ---- data -------------------------------------------------------------------
def encode(plan):
    """Room features, relation matrix and mask of one plan, padded to MOST rooms."""
    n = len(plan["rooms"])
    rel = torch.eye(MOST, dtype=torch.long) * RELATION["self"]
    walk = torch.zeros(n, n, dtype=torch.float64)
    for i, j, how in plan["links"]:
        rel[i, j] = rel[j, i] = RELATION[how]
        if how != "wall":
            walk[i, j] = walk[j, i] = 1.0
    step = walk / walk.sum(1, keepdim=True).clamp(min=1.0)
    power, home = step, []
    for _ in range(STEPS_BACK):
        power = power @ step
        home.append(power.diagonal())
    total = sum(r["area"] for r in plan["rooms"])
    feats = torch.zeros(MOST, FEATURES, dtype=torch.float64)
    for i, r in enumerate(plan["rooms"]):
        feats[i, 0] = math.log(r["area"])
        feats[i, 1] = r["area"] / total
        feats[i, 2] = 1.0 / r["aspect"]
        feats[i, 3] = min(r["windows"], 3) + 0.5 * r["outside"]
        feats[i, 4] = r["level"]
    feats[:n, 5:] = torch.stack(home, 1)
    mask = torch.zeros(MOST)
    mask[:n] = 1.0
    return feats.float(), rel, mask


def build_dataset(split):
    plans = json.loads((DATA / f"{split}.json").read_text())
    items = []
    for p in plans:
        feats, rel, mask = encode(p)
        kinds = torch.full((MOST,), -1, dtype=torch.long)
        kinds[:len(p["types"])] = torch.tensor([ROOMS.index(t) for t in p["types"]])
        items.append((feats, rel, mask, {"rooms": kinds,
                                         "dwelling": torch.tensor(DWELLINGS.index(p["dwelling"])),
                                         "heat": torch.tensor(math.log(p["heat"] / 1000.0), dtype=torch.float32)}))
    return items


def passes(n, size):
    """Batches of plans that lie a fixed stride apart; later passes start further on."""
    state = {"start": 0}

    class Batches:
        def __iter__(self):
            s = state["start"]
            state["start"] += 7
            order = [(s + 37 * k) % n for k in range(n)]
            return iter([order[a:a + size] for a in range(0, n, size)])

        def __len__(self):
            return -(-n // size)

    return Batches()


def build_dataloader(split):
    items = build_dataset(split)
    if split == "train":
        return DataLoader(items, batch_sampler=passes(len(items), 11))
    return DataLoader(items, batch_size=13)


# ---- model ------------------------------------------------------------------
class Net(nn.Module):
    """Holds the parameters; the computation is the closure it is given."""

    def __init__(self, parts, params, run):
        super().__init__()
        for k, p in params.items():
            self.register_parameter(k, p)
        for k, m in parts.items():
            self.add_module(k, m)
        self.run = run

    def forward(self, feats, rel, mask):
        return self.run(self, feats, rel, mask)


def attention_round(slope=0.2):
    def go(part, h, rel, mask):
        b, n, _ = h.shape
        q, k, v = part["qkv"](h).chunk(3, dim=-1)
        kind = part["rel"](rel)
        pair = F.leaky_relu(q[:, :, None] + k[:, None] + kind, slope).view(b, n, n, HEADS, -1)
        score = torch.einsum("bijhd,hd->bhij", pair, part["score"].weight.view(HEADS, -1))
        score = score.masked_fill((rel == RELATION["none"])[:, None], -1e9)
        att = score.softmax(-1)
        word = (v[:, None] + kind).view(b, n, n, HEADS, -1)
        msg = torch.einsum("bhij,bijhd->bihd", att, word).reshape(b, n, -1)
        new = part["cell"](msg.reshape(b * n, -1), h.reshape(b * n, -1)).view(b, n, -1)
        return part["norm"](new) * mask[..., None], att
    return go


def pool(gate_of):
    def go(net, h, mask):
        gate = torch.sigmoid(gate_of(net)(h)).squeeze(-1) * mask
        soft = torch.einsum("bn,bnd->bd", gate, h) / gate.sum(1, keepdim=True).clamp(min=1e-3)
        hard = h.masked_fill(mask[..., None] == 0, -math.inf).amax(1)
        return torch.cat([soft, hard], -1)
    return go


def build_model():
    rounds = [attention_round() for _ in range(ROUNDS)]
    summarise = pool(lambda net: net.gate)

    def run(net, feats, rel, mask):
        h = torch.tanh(net.enter(feats)) * mask[..., None]
        first, atts = h, []
        for part, go in zip(net.rounds, rounds):
            h, att = go(part, h, rel, mask)
            atts.append(att)
        rooms = net.rooms(torch.cat([first, h], -1))
        whole = summarise(net, h, mask)
        belief = (rooms.detach().softmax(-1) * mask[..., None]).sum(1)
        dwelling = net.dwelling(torch.cat([whole, belief], -1))
        heat = net.heat(torch.cat([whole, belief], -1)).squeeze(-1) + net.offset * mask.sum(1).log()
        return {"rooms": rooms, "dwelling": dwelling, "heat": heat, "attention": torch.stack(atts, 1)}

    def one_round():
        part = nn.ModuleDict({"qkv": nn.Linear(WIDTH, 3 * WIDTH, bias=False),
                              "rel": nn.Embedding(len(RELATION), WIDTH),
                              "score": nn.Linear(WIDTH, 1, bias=False),
                              "cell": nn.GRUCell(WIDTH, WIDTH),
                              "norm": nn.LayerNorm(WIDTH)})
        nn.init.normal_(part["rel"].weight, std=0.3)
        return part

    wide = 2 * WIDTH + len(ROOMS)
    parts = {"enter": nn.Linear(FEATURES, WIDTH),
             "rounds": nn.ModuleList(one_round() for _ in range(ROUNDS)),
             "rooms": nn.Linear(2 * WIDTH, len(ROOMS)),
             "gate": nn.Linear(WIDTH, 1),
             "dwelling": nn.Linear(wide, len(DWELLINGS)),
             "heat": nn.Linear(wide, 1)}
    nn.init.constant_(parts["gate"].bias, 1.0)
    return Net(parts, {"offset": nn.Parameter(torch.tensor([0.5]))}, run)


# ---- loss and metric ----------------------------------------------------------
def focal(gamma, weight):
    alpha = torch.tensor(weight)

    def of(logits, target):
        real = target >= 0
        t = target.clamp(min=0)
        logp = logits.log_softmax(-1).gather(-1, t[..., None]).squeeze(-1)
        each = -alpha[t] * (1 - logp.exp()) ** gamma * logp * real
        return (each.sum(1) / real.sum(1)).mean()
    return of


room_loss = focal(1.5, [1.0, 0.8, 1.2, 1.2, 0.9])


def loss(outputs, labels):
    rooms = room_loss(outputs["rooms"], labels["rooms"])
    dwelling = F.cross_entropy(outputs["dwelling"], labels["dwelling"])
    heat = F.huber_loss(outputs["heat"], labels["heat"], delta=0.5)
    att = outputs["attention"]
    entropy = -(att * (att + 1e-9).log()).sum(-1)                       # b, round, head, room
    real = (labels["rooms"] >= 0).float()[:, None, None]
    sharp = (entropy * real).sum() / (real.sum() * att.shape[1] * att.shape[2])
    return {"loss": rooms + 0.5 * dwelling + 2.0 * heat + 0.02 * sharp,
            "rooms": rooms, "dwelling": dwelling, "heat": heat, "sharp": sharp}


def metric(outputs, labels):
    with torch.no_grad():
        real = labels["rooms"] >= 0
        guess, true = outputs["rooms"].argmax(-1)[real], labels["rooms"][real]
        recall = [(guess[true == c] == c).double().mean().item() for c in range(len(ROOMS)) if (true == c).any()]
        top2 = outputs["rooms"].topk(2, -1).indices[real]
        whole = ((outputs["rooms"].argmax(-1) == labels["rooms"]) | ~real).all(1)
        res = labels["heat"] - outputs["heat"]
        dev = labels["heat"] - labels["heat"].mean()
        return {"room_acc": (guess == true).double().mean().item(),
                "room_recall": sum(recall) / len(recall),
                "room_top2": (top2 == true[:, None]).any(1).double().mean().item(),
                "plans_right": whole.double().mean().item(),
                "dwelling_acc": (outputs["dwelling"].argmax(-1) == labels["dwelling"]).double().mean().item(),
                "heat_r2": (1 - res.pow(2).sum() / dev.pow(2).sum()).item(),
                "heat_factor": res.abs().mean().exp().item()}


# ---- training -----------------------------------------------------------------
class DepthAdamW(torch.optim.Optimizer):
    """AdamW whose groups carry their own share of the rate and of the decay."""

    def __init__(self, groups, lr, betas=(0.9, 0.98), eps=1e-6):
        super().__init__(groups, dict(lr=lr, betas=betas, eps=eps, decay=0.0, share=1.0))

    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            b1, b2 = g["betas"]
            lr = g["lr"] * g["share"]
            for p in g["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                s["t"] += 1
                s["m"].lerp_(p.grad, 1 - b1)
                s["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                p.mul_(1 - lr * g["decay"])
                denom = (s["v"] / (1 - b2 ** s["t"])).sqrt_().add_(g["eps"])
                p.addcdiv_(s["m"] / (1 - b1 ** s["t"]), denom, value=-lr)


def share_of(name):
    """Lower parts learn more slowly."""
    if name.startswith("enter"):
        return 0.7 ** ROUNDS
    if name.startswith("rounds."):
        return 0.7 ** (ROUNDS - 1 - int(name.split(".")[1]))
    return 1.0


def decay_of(name, p):
    return 0.05 if p.ndim > 1 and ".rel." not in name else 0.0


def build_optimizer(model):
    groups = {}
    for name, p in model.named_parameters():
        key = (share_of(name), decay_of(name, p))
        groups.setdefault(key, []).append(p)
    return DepthAdamW([{"params": ps, "share": s, "decay": d} for (s, d), ps in groups.items()], lr=8e-3)


def build_scheduler(optimizer):
    warm = 10

    def factor(t):
        return (t + 1) / warm if t < warm else max(math.sqrt(warm / (t + 1)), 0.4)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    *inputs, labels = batch
    model.train()
    optimizer.zero_grad()
    terms = loss(model(*inputs), labels)
    terms["loss"].backward()
    for name, p in model.named_parameters():          # centred gradients: every output unit for itself
        if p.grad is not None and p.ndim > 1 and "rel" not in name:
            p.grad.sub_(p.grad.mean(1, keepdim=True))
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    optimizer.step()
    return {k: v.item() for k, v in terms.items()}


# ---- inference ------------------------------------------------------------------
def predict(path, model):
    """Room names with exactly one kitchen and one hall: these two are given out first."""
    plan = json.loads(Path(path).read_text())
    feats, rel, mask = encode(plan)
    n = len(plan["rooms"])
    model.eval()
    with torch.no_grad():
        out = model(feats[None], rel[None], mask[None])
    prob = out["rooms"][0, :n].softmax(-1)
    names = [None] * n
    for only in ("hall", "kitchen"):
        c = ROOMS.index(only)
        free = [i for i in range(n) if names[i] is None]
        names[max(free, key=lambda i: prob[i, c].item())] = only
    rest = [c for c, r in enumerate(ROOMS) if r not in ("hall", "kitchen")]
    for i in range(n):
        if names[i] is None:
            names[i] = ROOMS[max(rest, key=lambda c: prob[i, c].item())]
    area = sum(r["area"] for r in plan["rooms"])
    heat = 1000.0 * math.exp(out["heat"].item())
    looks = out["attention"][0, -1].mean(0)[:n, :n]
    looks = looks * (1 - torch.eye(n))
    return {"prob": prob.numpy(), "names": " ".join(names),
            "dwelling": DWELLINGS[out["dwelling"][0].argmax().item()],
            "dwelling_prob": out["dwelling"][0].softmax(-1).numpy(),
            "heat": [heat], "heat_per_area": [heat / area],
            "looks_at": looks.argmax(1).tolist(), "looks": looks.numpy()}
