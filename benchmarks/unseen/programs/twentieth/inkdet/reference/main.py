"""Entry points; `python -m reference.main` trains."""
import torch

from .criterion import detection_loss
from .decode import average_precision, detections
from .detector import Detector
from .pages import Pages, letterbox, make_loader


def build_model():
    return Detector()


def build_dataset(split):
    return Pages(split)


def build_dataloader(split):
    return make_loader(split)


def loss(outputs, labels):
    return detection_loss(outputs, labels)


def metric(outputs, labels):
    ap, recall = average_precision(outputs, labels, 0.2)
    return {"ap20": ap, "recall20": recall, "ap50": average_precision(outputs, labels, 0.5)[0]}


def build_optimizer(model):
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    return torch.optim.SGD([{"params": decay, "weight_decay": 5e-2}, {"params": plain, "weight_decay": 0.0}],
                           lr=0.02, momentum=0.9, nesterov=True)


def build_scheduler(optimizer):
    def factor(k):
        return (0.1 + 0.9 * k / 10 if k < 10 else 1.0) * 0.1 ** sum(k >= m for m in (40, 60))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    image, targets = batch
    parts = loss(model(image), targets)
    optimizer.zero_grad()
    parts["loss"].backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    return {k: v.detach() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    image, scale, (w, h) = letterbox(path)
    out = model(image.to(next(model.parameters()).dtype))
    boxes, scores, digits = detections(out["cls"][0], out["reg"][0], out["ctr"][0])
    boxes = boxes / scale
    boxes = torch.stack([boxes[:, 0].clamp(max=w), boxes[:, 1].clamp(max=h),
                         boxes[:, 2].clamp(max=w), boxes[:, 3].clamp(max=h)], 1)
    return {"boxes": boxes.numpy(), "scores": scores.numpy(), "digits": digits.numpy()}


if __name__ == "__main__":
    torch.manual_seed(0)
    model = build_model()
    opt = build_optimizer(model)
    sched = build_scheduler(opt)
    for epoch in range(20):
        for batch in make_loader("train"):
            parts = train_step(model, opt, batch)
            sched.step()
    print({k: float(v) for k, v in parts.items()})
