import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader
from PIL import Image

from shapedet import objective as criterion
from shapedet import post, solver
from shapedet.net import Detector
from shapedet.reader import SeededBatches, Shapes, fit_square, to_chw
from shapedet.settings import S


def build_model():
    return Detector()


def build_dataset(split):
    return Shapes(split)


def build_dataloader(split):
    data = Shapes(split)
    if split == "train":
        batches = SeededBatches(len(data))
    else:
        batches = BatchSampler(data, shuffle=False, batch_size=S.batch, drop_last=False)
    return DataLoader(data, batch_sampler=batches, num_workers=0)


def loss(outputs, labels):
    return criterion.objective(outputs, labels)


def metric(outputs, labels):
    return post.mean_ap(outputs, labels)


def build_optimizer(model):
    return solver.solver(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    images, gt = batch
    return solver.one_update(model, optimizer, images, gt)


def predict(path, model):
    picture = Image.open(path).convert("RGB")
    pixels, ratio, shift = fit_square(picture)
    x = paddle.to_tensor(to_chw(pixels)[np.newaxis], dtype=model.parameters()[0].dtype)
    with paddle.no_grad():
        box, score, label = post.detections(model(x))[0]
    sure = score > S.min_score
    box = (box[sure] - np.tile(shift, 2)) / ratio
    box[:, 0::2] = np.clip(box[:, 0::2], 0, picture.width)
    box[:, 1::2] = np.clip(box[:, 1::2], 0, picture.height)
    return {"boxes": box, "scores": score[sure], "classes": label[sure]}
