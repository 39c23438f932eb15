import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import LinearLR, MultiStepLR, SequentialLR

from .losses import knit_loss

RATE, MOMENTUM, DECAY = 0.05, 0.9, 1e-2
WARM, DROPS, FACTOR = 5, [12, 24], 0.3
CLIP, LONGEST = 0.05, 1.0


def sgd(model):
    decayed = [p for n, p in model.named_parameters() if p.ndim > 1 and not n.startswith("stitch")]
    others = [p for n, p in model.named_parameters() if p.ndim <= 1 or n.startswith("stitch")]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    return SGD(groups, lr=RATE, momentum=MOMENTUM, nesterov=True)


def schedule(optimizer):
    warm = LinearLR(optimizer, start_factor=0.2, total_iters=WARM)
    drop = MultiStepLR(optimizer, milestones=DROPS, gamma=FACTOR)
    return SequentialLR(optimizer, [warm, drop], milestones=[WARM])


@torch.no_grad()
def shorten(table):
    """No stitch's vector is longer than LONGEST."""
    length = table.norm(dim=1, keepdim=True)
    table.mul_((LONGEST / length).clamp(max=1.0))


def step(model, optimizer, batch):
    rows, meta, target = batch
    model.train()
    value = knit_loss(model(rows, meta), target)
    optimizer.zero_grad()
    value.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), CLIP)
    optimizer.step()
    shorten(model.stitch.weight)
    return value.detach()
