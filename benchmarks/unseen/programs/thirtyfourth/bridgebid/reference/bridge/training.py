import torch

DIM, WARM, FACTOR, DECAY, CLIP = 32, 12, 0.06, 1e-3, 1.0


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=FACTOR, betas=(0.9, 0.95), eps=1e-7, weight_decay=DECAY)


def noam(optimizer):
    def rate(step):
        step = step + 1
        return DIM ** -0.5 * min(step ** -0.5, step * WARM ** -1.5)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def pieces(batch, count):
    """The batch in parts along its first axis."""
    size = -(-len(batch["calls"]) // count)
    for start in range(0, len(batch["calls"]), size):
        part = {k: v[start:start + size] for k, v in batch.items() if k != "labels"}
        yield part, {k: v[start:start + size] for k, v in batch["labels"].items()}


def accumulate(model, optimizer, batch, objective, count=2):
    optimizer.zero_grad()
    total, n = 0.0, len(batch["calls"])
    for inputs, labels in pieces(batch, count):
        loss = objective(model(**inputs), labels)["loss"] * (len(inputs["calls"]) / n)
        loss.backward()
        total = total + loss.detach()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return {"loss": total, "norm": norm}
