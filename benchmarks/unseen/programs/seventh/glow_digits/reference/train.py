import math

import torch
import torch.nn.functional as F


def bits_per_dim(out, levels):
    n = out["z"].shape[1]
    return (n * math.log(levels) - out["logp"] - out["logdet"]) / (n * math.log(2))


def compute_loss(out, y, args):
    nll = bits_per_dim(out, args.levels_of_grey).mean()
    classes = F.cross_entropy(out["class_logits"], y)
    return {"loss": nll + args.y_weight * classes, "nll": nll, "classes": classes}


def make_optimizer(model, args):
    return torch.optim.Adam(model.parameters(), lr=args.lr, betas=tuple(args.betas), weight_decay=args.l2)


def step(model, optimizer, batch, args):
    x, y = batch
    optimizer.zero_grad()
    value = compute_loss(model(x), y, args)["loss"]
    value.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), args.grad_value)
    optimizer.step()
    return value
