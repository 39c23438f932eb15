"""One update out of several micro batches."""
import torch

from objective import loss

MICRO = 2
MAX_NORM = 0.8


def chunks(tensors, parts):
    yield from zip(*(t.chunk(parts) for t in tensors))


def accumulate(model, batch):
    weight_of = batch[-1].shape[0]
    sums = {"loss": 0.0, "ce": 0.0, "consistency": 0.0}
    for weak, strong, y in chunks(batch, MICRO):
        share = y.shape[0] / weight_of
        parts = loss(model(weak, strong), y)
        (parts["loss"] * share).backward()
        for k in sums:
            sums[k] += float(parts[k].detach()) * share
    return sums


def clip(model):
    params = [p for p in model.student.parameters() if p.grad is not None]
    return float(torch.nn.utils.clip_grad_norm_(params, MAX_NORM))
