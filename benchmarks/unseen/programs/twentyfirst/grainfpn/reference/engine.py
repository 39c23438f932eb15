import torch
import torch.nn.functional as F

from . import grains, losses, postproc
from .detector import GrainDetector
from .registry import load_config

CFG = load_config()


def build_model():
    return GrainDetector(CFG.model)


def transforms(split):
    return grains.make_transforms(split)


def build_dataset(split):
    return grains.GrainSet(split)


def build_dataloader(split):
    return grains.make_loader(split)


def loss(outputs, labels):
    return losses.grain_loss(outputs, labels, CFG.loss)


def metric(outputs, labels):
    return postproc.evaluate(outputs, labels, CFG.post.mask)


def build_optimizer(model):
    decay, free = [], []
    for module in model.modules():
        for name, p in module.named_parameters(recurse=False):
            (decay if isinstance(module, torch.nn.Conv2d) and name == "weight" else free).append(p)
    return torch.optim.SGD([{"params": decay, "weight_decay": CFG.solver.weight_decay},
                            {"params": free, "weight_decay": 0.0}],
                           lr=CFG.solver.lr, momentum=CFG.solver.momentum, nesterov=True)


def build_scheduler(optimizer):
    s = CFG.solver
    total = s.epochs * len(build_dataloader("train"))
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=s.warmup)
    poly = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=total - s.warmup, power=s.power)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, poly], milestones=[s.warmup])


def unit_norm(x):
    return x.norm() if x.ndim <= 1 else torch.linalg.vector_norm(x, dim=tuple(range(1, x.ndim)), keepdim=True)


@torch.no_grad()
def adaptive_clip(model):
    """Gradients of a unit are kept below a share of its weights' norm; the output layers go free."""
    for name, p in model.named_parameters():
        if p.grad is None or name.startswith(("heat", "size", "mask_out")):
            continue
        limit = unit_norm(p).clamp(min=CFG.solver.agc_eps) * CFG.solver.agc
        norm = unit_norm(p.grad)
        p.grad.mul_(torch.where(norm > limit, limit / norm.clamp(min=1e-6), torch.ones_like(norm)))


def train_step(model, optimizer, batch):
    image, labels = batch
    optimizer.zero_grad()
    parts = loss(model(image), labels)
    parts["loss"].backward()
    adaptive_clip(model)
    optimizer.step()
    return {k: v.detach() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    image = grains.picture(path).to(next(model.parameters()).dtype)
    h, w = image.shape[-2:]
    padded = F.pad(image, (0, -w % 16, 0, -h % 16), mode="reflect")
    out, mirrored = model(padded), model(padded.flip(-1))
    out = {k: (v + mirrored[k].flip(-1)) / 2 for k, v in out.items()}
    return postproc.grains(out, h, w, CFG.data.stride, CFG.post)


def main():
    torch.manual_seed(1)
    model, loader = build_model(), build_dataloader("train")
    optimizer = build_optimizer(model)
    scheduler = build_scheduler(optimizer)
    for epoch in range(CFG.solver.epochs):
        loader.sampler.epoch = epoch
        model.train()
        for batch in loader:
            parts = train_step(model, optimizer, batch)
            scheduler.step()
        if epoch % 5 == 4:
            model.eval()
            with torch.no_grad():
                print(epoch, float(parts["loss"]), [metric(model(x), y) for x, y in build_dataloader("val")][0])
    return model


if __name__ == "__main__":
    main()
