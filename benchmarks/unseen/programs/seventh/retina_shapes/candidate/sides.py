import paddle
import paddle.nn.functional as F

from . import detector  # noqa: F401
from .geometry import overlaps
from .objective import anchor_grid, codec, detection_loss
from .settings import CFG
from .shapes import Shapes, loader
from .solver import make_solver
from .workspace import create


def build_model():
    return create(CFG["architecture"])


def loss(outputs, labels):
    return detection_loss(outputs, labels)


def metric(outputs, labels):
    logits, offsets = outputs
    anchors = anchor_grid(CFG["input"], offsets.dtype)
    hits, objects, lying = 0, 0, []
    for b in range(logits.shape[0]):
        rows = labels[b]
        rows = rows[(rows[:, 4] >= 0).nonzero().flatten()]
        _, order = paddle.topk(F.sigmoid(logits[b]).flatten(), CFG["eval"]["keep"])
        cell = order // CFG["classes"]
        kind = order % CFG["classes"]
        found = codec.decode(anchors[cell], offsets[b][cell], CFG["input"])
        iou = overlaps(found, rows[:, :4].astype(found.dtype)).numpy()
        same = kind.numpy()[:, None] == rows[:, 4].numpy().astype("int64")[None]
        hits += ((iou >= CFG["eval"]["iou"]) & same).any(axis=0).sum()
        objects += rows.shape[0]
        lying.append(iou.max(axis=0).mean())
    return {"recall": float(hits) / objects, "mean_best_iou": float(sum(lying) / len(lying))}


def build_optimizer(model):
    return make_solver(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def build_dataset(split):
    return Shapes(split)


def build_dataloader(split):
    return loader(split)
