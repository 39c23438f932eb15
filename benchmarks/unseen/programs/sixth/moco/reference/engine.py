import torch

from .losses import total_loss


def make_optimizer(model, opts):
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    no_decay = {n for n, p in named if p.ndim <= 1}
    return torch.optim.SGD(
        [
            {"params": [p for n, p in named if n not in no_decay], "weight_decay": opts.wd},
            {"params": [p for n, p in named if n in no_decay], "weight_decay": 0.0},
        ],
        lr=opts.lr,
        momentum=0.9,
    )


def train_step(model, optimizer, batch, opts):
    im_q, im_k, labels = batch
    model.momentum_update()
    outputs = model(im_q, im_k)
    loss = total_loss(outputs, labels, opts)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], opts.clip)
    optimizer.step()
    model.dequeue_and_enqueue(outputs["k"])
    return loss.detach()
