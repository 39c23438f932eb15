import numpy as np
import torch

from . import scenes
from .forecaster import SpringForecaster
from .mixture import displacement_metrics, mixture_nll

TRAIN = {"max_lr": 4e-3, "encoder_factor": 0.5, "epochs": 4, "per_epoch": 11, "decay": 1e-3, "clip": 0.5}


def build_model():
    return SpringForecaster()


def transforms(split):
    return scenes.pipeline(split)


def build_dataset(split):
    return scenes.SpringScenes(split)


def build_dataloader(split):
    return scenes.make_loader(split)


def loss(outputs, labels):
    return mixture_nll(outputs, labels)


def metric(outputs, labels):
    return displacement_metrics(outputs, labels)


def build_optimizer(model):
    slow = [p for n, p in model.named_parameters() if n.startswith("encoder.")]
    fast = [p for n, p in model.named_parameters() if not n.startswith("encoder.")]
    return torch.optim.Adam([{"params": slow}, {"params": fast}], lr=TRAIN["max_lr"], betas=(0.9, 0.99), weight_decay=TRAIN["decay"])


def build_scheduler(optimizer):
    top = TRAIN["max_lr"]
    return torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [top * TRAIN["encoder_factor"], top], total_steps=TRAIN["epochs"] * TRAIN["per_epoch"], pct_start=0.25, div_factor=10, final_div_factor=50, cycle_momentum=False
    )


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    parts = loss(model(batch["past"], batch["seen"], batch["kind"]), batch["labels"])
    parts["loss"].backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), TRAIN["clip"])
    optimizer.step()
    return {**{k: v.detach() for k, v in parts.items()}, "norm": norm}


def fit():
    model = build_model()
    optimizer = build_optimizer(model)
    scheduler = build_scheduler(optimizer)
    loader = build_dataloader("train")
    for epoch in range(TRAIN["epochs"]):
        loader.sampler.epoch = epoch
        for batch in loader:
            parts = train_step(model, optimizer, batch)
            scheduler.step()
        with torch.no_grad():
            rows = [metric(model(b["past"], b["seen"], b["kind"]), b["labels"]) for b in build_dataloader("val")]
        print(epoch, float(parts["loss"]), {k: float(sum(r[k] for r in rows)) / len(rows) for k in rows[0]})
    return model


@torch.no_grad()
def predict(path, model, near=0.3):
    """Paths in the world's frame, likeliest first; a mode that ends near a likelier one is silenced."""
    model.eval()
    with np.load(path) as f:
        s = {"id": 0, **{k: f[k] for k in ("pos", "seen", "kind")}}
    for t in scenes.pipeline("val"):
        s = t(s)
    out = model(**{k: v[None] for k, v in scenes.to_agents(s).items()})
    prob = torch.softmax(out["logit"][0], -1)
    order = prob.sort(dim=-1, descending=True, stable=True).indices
    prob = prob.gather(1, order)
    mean = out["mean"][0].gather(1, order[:, :, None, None].expand_as(out["mean"][0])) * scenes.SCALE + torch.from_numpy(s["origin"])
    for a in range(prob.shape[0]):
        for k in range(1, prob.shape[1]):
            gap = (mean[a, :k, -1] - mean[a, k, -1]).norm(dim=-1)
            if (gap[prob[a, :k] > 0] < near).any():
                prob[a, k] = 0
    prob = prob / prob.sum(-1, keepdim=True)
    return {"paths": mean.numpy(), "prob": prob.numpy()}


if __name__ == "__main__":
    torch.manual_seed(0)
    fit()
