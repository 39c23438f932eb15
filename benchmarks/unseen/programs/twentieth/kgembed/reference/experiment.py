"""Entry points; run as `python -m reference.experiment`."""
import torch

from .graph import GRAPH
from .nets import ComplexGraphModel
from .objectives import n3, ranking, self_adversarial_loss
from .optim import make_optimizer, make_scheduler
from .sampling import make_dataset, make_loader


def build_model():
    return ComplexGraphModel(GRAPH)


def build_dataset(split):
    return make_dataset(split)


def build_dataloader(split):
    return make_loader(split)


def loss(outputs, labels):
    return self_adversarial_loss(outputs, labels)


def metric(outputs, labels):
    return ranking(outputs, labels)


def build_optimizer(model):
    return make_optimizer(model)


def build_scheduler(optimizer):
    return make_scheduler(optimizer)


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    scores = model(batch["head"], batch["rel"], batch["tails"])
    fit, penalty = self_adversarial_loss(scores, batch["labels"]), n3(model)
    (fit + penalty).backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.02)
    optimizer.step()
    return {"loss": fit.detach(), "n3": penalty.detach()}


@torch.no_grad()
def predict(path, model, k=5):
    """Best new answers to lines `head<TAB>relation<TAB>?` or `?<TAB>relation<TAB>tail`."""
    answers, scores, share = [], [], []
    with open(path) as fh:
        for line in fh:
            h, r, t = line.rstrip("\n").split("\t")
            r = GRAPH.rel[r]
            if h == "?":
                h, r = t, r + GRAPH.n_rel
            h = GRAPH.ent[h]
            every = torch.arange(GRAPH.n_ent).unsqueeze(0)
            s = model(torch.tensor([h]), torch.tensor([r]), every)[0]
            for known in sorted({t for a, b, t in GRAPH.triples["train"] if (a, b) == (h, r)} | {h}):
                s[known] = float("-inf")
            top = s.topk(k)
            answers.append(top.indices)
            scores.append(top.values)
            share.append(s.softmax(0)[top.indices])
    return {"answers": torch.stack(answers).numpy(), "scores": torch.stack(scores).numpy(),
            "share": torch.stack(share).numpy()}


def main(epochs=4):
    torch.manual_seed(0)
    model = build_model()
    train, val = make_loader("train"), make_loader("val")
    opt = build_optimizer(model)
    sched = build_scheduler(opt)
    for epoch in range(epochs):
        train.dataset.epoch = epoch
        model.train()
        for batch in train:
            out = train_step(model, opt, batch)
            sched.step()
        model.eval()
        with torch.no_grad():
            pairs = [(model(b["head"], b["rel"], b["tails"]), b["labels"]) for b in val]
        result = metric(torch.cat([p for p, _ in pairs]), torch.cat([t for _, t in pairs]))
        print(epoch, {n: round(float(v), 4) for n, v in {**out, **result}.items()})


if __name__ == "__main__":
    main()
