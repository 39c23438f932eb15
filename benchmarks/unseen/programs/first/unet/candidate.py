import numpy as np
import paddle
import paddle.nn.functional as F
from PIL import Image

from config import CLASSES, CLASS_WEIGHT, IGNORE
from segmenter import Segmenter
from shapes import Shapes, pipeline


def build_model():
    return Segmenter(base=6, classes=CLASSES)


def transforms(split):
    return pipeline()


def build_dataset(split):
    return Shapes("images", pipeline())


def build_dataloader(split):
    return paddle.io.DataLoader(build_dataset(split), batch_size=3, shuffle=False)


def masked_cross_entropy(logits, y, weight=None):
    logp = F.log_softmax(logits, axis=1)
    valid = (y != IGNORE).astype(logits.dtype)
    target = paddle.where(y == IGNORE, paddle.zeros_like(y), y)
    each = -paddle.take_along_axis(logp, target.unsqueeze(1), axis=1).squeeze(1)
    if weight is not None:
        w = paddle.to_tensor(weight, dtype=logits.dtype)
        valid = valid * w[target]
    return (each * valid).sum() / valid.sum()


def dice_loss(logits, y, smooth=1.0):
    valid = (y != IGNORE).astype(logits.dtype).unsqueeze(1)
    target = F.one_hot(paddle.where(y == IGNORE, paddle.zeros_like(y), y), CLASSES)
    target = target.astype(logits.dtype).transpose([0, 3, 1, 2]) * valid
    prob = F.softmax(logits, axis=1) * valid
    axes = [0, 2, 3]
    overlap = (prob * target).sum(axis=axes)
    score = (2 * overlap + smooth) / (prob.sum(axis=axes) + target.sum(axis=axes) + smooth)
    return 1 - score[1:].mean()


def loss(out, y):
    main = masked_cross_entropy(out["out"], y, CLASS_WEIGHT) + dice_loss(out["out"], y)
    return main + 0.4 * masked_cross_entropy(out["aux"], y)


def metric(out, y):
    pred, gold = out["out"].numpy().argmax(axis=1), y.numpy()
    known = gold != IGNORE
    table = np.zeros((CLASSES, CLASSES))
    np.add.at(table, (gold[known], pred[known]), 1)
    hit, rows, cols = np.diag(table), table.sum(axis=1), table.sum(axis=0)
    iou = hit / np.maximum(rows + cols - hit, 1)
    return {
        "miou": float(iou.mean()),
        "fwiou": float((rows * iou).sum() / table.sum()),
        "pixel_acc": float(hit.sum() / table.sum()),
    }


def build_optimizer(model):
    norms = [p for m in model.sublayers() if isinstance(m, paddle.nn.BatchNorm2D) for p in m.parameters()]
    heads = [*model.classify.parameters(), *model.auxiliary.parameters()]
    special = {p.name for p in norms + heads}
    body = [p for p in model.parameters() if p.name not in special]
    rate = paddle.optimizer.lr.PolynomialDecay(0.01, decay_steps=10, end_lr=0.0, power=0.9)
    return paddle.optimizer.Momentum(
        rate,
        momentum=0.9,
        weight_decay=5e-4,
        parameters=[
            {"params": body},
            {"params": norms, "weight_decay": 0.0},
            {"params": heads, "learning_rate": 5.0},
        ],
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


@paddle.no_grad()
def predict(path, model):
    picture = Image.open(path).convert("RGB")
    width, height = picture.size
    x = pipeline()((picture, Image.new("L", picture.size)))[0]
    x = paddle.to_tensor(x[None], dtype=model.classify.weight.dtype)
    prob = F.softmax(model(x)["out"], axis=1)
    mirrored = F.softmax(model(paddle.flip(x, axis=[3]))["out"], axis=1)
    prob = 0.5 * (prob + paddle.flip(mirrored, axis=[3]))
    prob = F.interpolate(prob, size=[height, width], mode="bilinear").squeeze(0).numpy()
    area = np.bincount(prob.argmax(axis=0).ravel(), minlength=CLASSES)
    return {"prob": prob, "area": area.tolist()}
