import torch


def noam(width, factor, warmup):
    def rate(step):
        step = step + 1
        return factor * width ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)

    return rate


def make_optimizer(model, settings):
    return torch.optim.Adam(
        model.parameters(), lr=1.0, betas=(settings["beta1"], settings["beta2"]), eps=settings["eps"],
    )


def make_scheduler(optimizer, width, settings):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, noam(width, settings["factor"], settings["warmup"]))


@torch.no_grad()
def clip_(parameters, limit):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum(g.pow(2).sum() for g in gradients))
    if norm > limit:
        for g in gradients:
            g.mul_(limit / norm)
    return norm


def step(model, optimizer, batch, criterion, limit):
    source, target_in, target_out = batch
    optimizer.zero_grad()
    logits = model(source, target_in)
    loss = criterion(logits, target_out)
    loss.backward()
    clip_(model.parameters(), limit)
    optimizer.step()
    return {"loss": loss.item(), "tokens": int((target_out != 0).sum())}
