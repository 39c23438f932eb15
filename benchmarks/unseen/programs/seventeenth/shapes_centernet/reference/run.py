"""CenterNet on synthetic shapes: the parts of training and evaluation, and a small command line.

    python run.py ../data/images/scene_0.png
"""

import sys

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader

from centernet.config import cfg
from centernet.data import EpochSampler, ShapesDataset
from centernet.data.augment import letterbox, normalize
from centernet.engine import make_optimizer, make_scheduler, train_one_step
from centernet.evaluation import decode, evaluate, nms
from centernet.losses import CenterLoss
from centernet.models import CenterNet

criterion = CenterLoss(cfg.loss)


def build_model():
    return CenterNet(len(cfg.classes), cfg.model)


def build_dataset(split):
    return ShapesDataset(split, cfg)


def build_dataloader(split):
    dataset = build_dataset(split)
    sampler = EpochSampler(len(dataset), cfg.augment.seed) if split == "train" else None
    return DataLoader(dataset, cfg.schedule.batch_size, sampler=sampler, drop_last=split == "train")


def loss(outputs, targets):
    return criterion(outputs, targets)


def metric(outputs, targets):
    return evaluate(outputs, targets, cfg)


def build_optimizer(model):
    return make_optimizer(model, cfg.optim)


def build_scheduler(optimizer):
    return make_scheduler(optimizer, cfg.schedule)


def train_step(model, optimizer, batch):
    images, targets = batch
    return train_one_step(model, optimizer, images, targets, criterion, cfg.optim.clip)


@torch.no_grad()
def predict(path, model):
    with Image.open(path) as picture:
        canvas, scale, (left, top) = letterbox(picture.convert("RGB"), cfg.input_size)
        width, height = picture.size
    image = normalize(np.asarray(canvas, dtype=np.float64) / 255.0, cfg.mean, cfg.std)
    images = torch.from_numpy(image)[None].to(next(model.parameters()))
    boxes, scores, classes = (part[0] for part in decode(model(images), cfg.stride, cfg.test.topk))
    confident = scores > cfg.test.score
    boxes, scores, classes = boxes[confident], scores[confident], classes[confident]
    keep = nms(boxes, scores, classes, cfg.test.nms_iou)
    boxes = (boxes[keep] - np.array([left, top, left, top])) / scale
    boxes = boxes.clip(0, np.array([width, height, width, height]))
    return {"boxes": boxes, "scores": scores[keep], "classes": classes[keep]}


if __name__ == "__main__":
    network = build_model().eval()
    for argument in sys.argv[1:]:
        print(argument, predict(argument, network))
