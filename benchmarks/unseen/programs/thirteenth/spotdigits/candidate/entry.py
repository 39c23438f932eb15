import numpy as np
import paddle
from criterion import detection_loss
from nets import SpotNet
from pictures import SceneSet, loader, pipeline, read_image
from scoring import find, score
from settings import Settings
from training import make_optimizer

SETTINGS = Settings()


def build_model():
    return SpotNet(SETTINGS)


def build_dataset(split):
    return SceneSet(SETTINGS, split)


def build_dataloader(split):
    return loader(SETTINGS, split)


def transforms(split):
    return pipeline(SETTINGS, split)


def loss(outputs, labels):
    return detection_loss(SETTINGS, outputs, labels)


def metric(outputs, labels):
    return score(SETTINGS, outputs, labels)


def build_optimizer(model):
    return make_optimizer(SETTINGS.solver, model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


@paddle.no_grad()
def predict(path, model):
    sample = pipeline(SETTINGS, "val")({"image": read_image(path), "boxes": np.zeros((0, 5), "float32")})
    image = paddle.to_tensor(sample["image"]).unsqueeze(0).astype(model.stem[0].weight.dtype)
    out = model(image)
    boxes, scores, classes = find(SETTINGS, out["logits"][0], out["deltas"][0])
    return {"boxes": boxes, "scores": scores, "classes": classes}
