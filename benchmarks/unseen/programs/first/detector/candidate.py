import numpy as np
import paddle
from paddle.io import DataLoader

import scoring
from boxes import final_detections
from criterion import DetectionLoss
from network import AnchorDetector
from scenes import SceneSet, whiten

criterion = DetectionLoss(classes=3)


def build_model():
    return AnchorDetector()


def build_dataset(split):
    return SceneSet(split)


def build_dataloader(split):
    return DataLoader(SceneSet(split), batch_size=3)


def loss(out, targets):
    return criterion(out, targets)


def metric(out, targets):
    found = [final_detections(c, b) for c, b in zip(out["cls"].numpy(), out["boxes"].numpy())]
    return scoring.average_precision(found, targets.numpy(), classes=3)


def build_optimizer(model):
    return paddle.optimizer.Adagrad(
        learning_rate=0.01, epsilon=1e-10, initial_accumulator_value=0.1, parameters=model.parameters())


@paddle.no_grad()
def predict(path, model):
    image = whiten(np.load(path)).transpose(2, 0, 1)
    out = model(paddle.to_tensor(image[None], dtype=model.fuse.weight.dtype))
    return final_detections(out["cls"][0].numpy(), out["boxes"][0].numpy())
