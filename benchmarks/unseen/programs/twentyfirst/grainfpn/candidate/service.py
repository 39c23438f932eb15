import paddle
import paddle.nn.functional as F
from paddle.optimizer import lr as schedules

from . import cfg, criteria, decode, pictures
from .blocks import GrainNet


def build_model():
    return GrainNet(cfg.WIDTHS, cfg.DEPTHS, cfg.PYRAMID, cfg.PRIOR, cfg.DROP)


def transforms(split):
    return pictures.pipeline(split)


def build_dataset(split):
    return pictures.Grains(split)


def build_dataloader(split):
    return pictures.loader(split)


def loss(outputs, labels):
    return criteria.grain_criterion(outputs, labels)


def metric(outputs, labels):
    return decode.figures(outputs, labels)


def schedule():
    steps = cfg.EPOCHS * len(pictures.loader("train")) - cfg.WARMUP
    poly = schedules.PolynomialDecay(cfg.LR, decay_steps=steps, end_lr=0.0, power=cfg.POWER)
    return schedules.LinearWarmup(poly, warmup_steps=cfg.WARMUP, start_lr=0.1 * cfg.LR, end_lr=cfg.LR)


def build_optimizer(model):
    kernels, others = [], []
    for layer in model.sublayers(include_self=True):
        for name, p in layer._parameters.items():
            if p is None:
                continue
            is_kernel = name == "weight" and isinstance(layer, paddle.nn.Conv2D)
            (kernels if is_kernel else others).append(p)
    return paddle.optimizer.Momentum(
        learning_rate=schedule(), momentum=cfg.MOMENTUM, use_nesterov=True,
        parameters=[{"params": kernels, "weight_decay": cfg.L2}, {"params": others, "weight_decay": 0.0}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def norm_per_unit(t):
    if t.ndim < 2:
        return paddle.sqrt(paddle.sum(t * t))
    return paddle.sqrt(paddle.sum(t * t, axis=list(range(1, t.ndim)), keepdim=True))


@paddle.no_grad()
def clip_by_units(model):
    for name, p in model.named_parameters():
        if p.grad is None or name.startswith(("heat_out", "size_out", "mask_head.2")):
            continue
        allowed = cfg.AGC * paddle.clip(norm_per_unit(p), min=cfg.AGC_EPS)
        actual = norm_per_unit(p.grad)
        p.grad.multiply_(paddle.clip(allowed / paddle.clip(actual, min=1e-6), max=1.0))


def train_step(model, optimizer, batch):
    image, labels = batch
    terms = criteria.grain_criterion(model(image), labels)
    terms["loss"].backward()
    clip_by_units(model)
    optimizer.step()
    optimizer.clear_grad()
    return {k: v.detach() for k, v in terms.items()}


@paddle.no_grad()
def predict(path, model):
    image = paddle.to_tensor(pictures.read(path)).unsqueeze(0).astype(model.heat_out.weight.dtype)
    h, w = image.shape[2:]
    image = F.pad(image, [0, -w % 16, 0, -h % 16], mode="reflect")
    plain = model(image)
    turned = model(paddle.flip(image, axis=[3]))
    merged = {k: 0.5 * (plain[k] + paddle.flip(turned[k], axis=[3])) for k in plain}
    return decode.segment(merged, h, w)


def fit():
    model, data = build_model(), build_dataloader("train")
    optimizer = build_optimizer(model)
    for epoch in range(cfg.EPOCHS):
        data.batch_sampler.sampler.epoch = epoch
        model.train()
        for batch in data:
            terms = train_step(model, optimizer, batch)
            optimizer._learning_rate.step()
        if epoch % 5 == 4:
            model.eval()
            with paddle.no_grad():
                x, y = next(iter(build_dataloader("val")))
                print(epoch, float(terms["loss"]), metric(model(x), y))
    return model


if __name__ == "__main__":
    fit()
