import paddle
from paddle.optimizer.lr import CosineAnnealingDecay, LinearWarmup


def depth_of(name, depth):
    owner, *rest = name.split(".")
    if owner == "encoder":
        if rest[0] in ("summary", "cutter"):
            return 0
        if rest[0] == "layers":
            return 1 + int(rest[1])
    return depth + 1


def decays(name, parameter):
    return parameter.ndim > 1 and not name.endswith(("summary", "blank"))


def groups(model, options):
    depth = options.encoder.depth
    found = {}
    for name, parameter in model.named_parameters():
        key = depth_of(name, depth), decays(name, parameter)
        found.setdefault(key, []).append(parameter)
    return [
        {
            "params": parameters,
            "learning_rate": options.adamw.layer_decay ** (depth + 1 - layer),
            "weight_decay": options.adamw.weight_decay if decayed else 0.0,
        }
        for (layer, decayed), parameters in found.items()
    ]


def adamw(model, options):
    return paddle.optimizer.AdamW(
        learning_rate=options.rate.peak,
        beta1=options.adamw.beta1,
        beta2=options.adamw.beta2,
        parameters=groups(model, options),
    )


def rates(optimizer, options):
    peak, first = options.rate.peak, options.rate.first
    cosine = CosineAnnealingDecay(peak, T_max=options.rate.cosine)
    schedule = LinearWarmup(
        cosine, warmup_steps=options.rate.warmup, start_lr=peak * first, end_lr=peak
    )
    optimizer.set_lr_scheduler(schedule)
    return schedule


def step_in_pieces(model, optimizer, batch, criterion, pieces):
    (images, order), labels = batch
    model.train()
    losses = []
    for first in range(pieces):
        some = slice(first, None, pieces)
        guess = model(images[some], order[some])
        part = criterion(guess, {name: label[some] for name, label in labels.items()})
        (part / pieces).backward()
        losses.append(float(part))
    optimizer.step()
    optimizer.clear_grad()
    return sum(losses) / pieces
