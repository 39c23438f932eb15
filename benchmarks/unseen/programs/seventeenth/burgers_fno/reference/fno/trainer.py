import torch
from torch import nn

from .datasets import normalizers
from .layers import SpectralConv1d
from .losses import band_errors, relative_l2, sobolev_loss


def criterion(outputs, targets, h1_weight, key="next"):
    _, decoder, _ = normalizers()
    return sobolev_loss(decoder.decode(outputs), targets[key], h1_weight)


def feed_back(outputs):
    """The network's output as its next input."""
    encoder, decoder, _ = normalizers()
    return encoder.encode(decoder.decode(outputs))


def make_optimizer(model, o):
    spectral = [m.weight for m in model.modules() if isinstance(m, SpectralConv1d)]
    known = {id(p) for p in spectral}
    others = [p for p in model.parameters() if id(p) not in known]
    groups = [
        {"params": others, "weight_decay": o.weight_decay},
        {"params": spectral, "lr": o.lr * o.spectral_factor, "weight_decay": 0.0},
    ]
    return torch.optim.Adam(groups, lr=o.lr, betas=o.betas, eps=o.eps)


def pushforward_step(model, optimizer, field, viscosity, targets, cfg):
    """One step from the data, and one from the network's own output, through which no gradient flows."""
    optimizer.zero_grad()
    first = model(field, viscosity)
    loss = criterion(first, targets, cfg.h1_weight)
    second = model(feed_back(first.detach()), viscosity)
    unrolled = criterion(second, targets, cfg.h1_weight, key="second")
    (loss + cfg.optim.pushforward * unrolled).backward()
    nn.utils.clip_grad_value_(model.parameters(), cfg.optim.clip_value)
    optimizer.step()
    return {"loss": loss.item(), "unrolled": unrolled.item()}


@torch.no_grad()
def evaluate(outputs, targets, bands):
    _, decoder, _ = normalizers()
    pred, truth = decoder.decode(outputs), targets["next"]
    low, middle, high = band_errors(pred, truth, bands)
    return {
        "relative_l2": relative_l2(pred, truth).mean(),
        "worst": (pred - truth).abs().amax(-1).mean(),
        "mass": (pred.mean(-1) - truth.mean(-1)).abs().max(),
        "low": low,
        "middle": middle,
        "high": high,
    }


@torch.no_grad()
def rollout(model, field, viscosity, steps):
    """field: points, in physical units; returns steps x points."""
    encoder, decoder, scale = normalizers()
    dtype = next(model.parameters()).dtype
    state = encoder.encode(field.to(dtype))[None]
    nu = scale.encode(torch.tensor([viscosity], dtype=dtype))
    states = []
    for _ in range(steps):
        output = model(state, nu)
        states.append(decoder.decode(output)[0])
        state = feed_back(output)
    return torch.stack(states)
