import numpy as np
import paddle

from .modeling import InkDetector as build_model
from .postprocess import decode, evaluate
from .reader import PageSet as build_dataset
from .reader import fit_page, page_loader
from .targets import criterion as loss

BASE_LR, WARM, DROPS = 0.02, 10, (40, 60)


def build_dataloader(split):
    return page_loader(split)


def metric(outputs, labels):
    out = {k: v.numpy() for k, v in outputs.items()}
    boxes = labels.numpy()
    ap, recall = evaluate(out, boxes, 0.2)
    return {"ap20": ap, "recall20": recall, "ap50": evaluate(out, boxes, 0.5)[0]}


def lr_ratio(done):
    if done < WARM:
        return 0.1 + 0.9 * done / WARM
    return 0.1 ** int(np.searchsorted(DROPS, done, side="right"))


def build_optimizer(net):
    schedule = paddle.optimizer.lr.LambdaDecay(BASE_LR, lr_ratio)
    heavy = [p for p in net.parameters() if len(p.shape) > 1]
    light = [p for p in net.parameters() if len(p.shape) <= 1]
    return paddle.optimizer.Momentum(learning_rate=schedule, momentum=0.9, use_nesterov=True, parameters=[
        {"params": heavy, "weight_decay": 5e-2}, {"params": light, "weight_decay": 0.0}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(net, optimizer, batch):
    image, targets = batch
    parts = loss(net(image), targets)
    parts["loss"].backward()
    paddle.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    optimizer.step()
    optimizer.clear_grad()
    return {k: v.detach() for k, v in parts.items()}


@paddle.no_grad()
def predict(path, net):
    image, ratio, width, height = fit_page(path)
    out = net(paddle.to_tensor(image).astype(net.head.level_gain.dtype))
    boxes, scores, digits = decode(*(out[k][0].numpy() for k in ("cls", "reg", "ctr")))
    limit = np.array([width, height, width, height], dtype=boxes.dtype)
    return {"boxes": np.minimum(boxes / ratio, limit), "scores": scores, "digits": digits}


if __name__ == "__main__":
    paddle.seed(0)
    net = build_model()
    optimizer = build_optimizer(net)
    for epoch in range(20):
        for batch in page_loader("train"):
            info = train_step(net, optimizer, batch)
            optimizer._learning_rate.step()
    print({k: float(v) for k, v in info.items()})
