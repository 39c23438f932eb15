"""What is compared of the authors' code."""

import numpy as np
import torch
from PIL import Image
from spot import SpotDet, load_config
from spot import data, evaluate, losses, solver

CFG = load_config()


def build_model():
    return SpotDet(CFG)


def build_dataset(split):
    return data.build_set(CFG, split)


def build_dataloader(split):
    return data.build_loader(CFG, split)


def transforms(split):
    return data.build_transform(CFG, split)


def loss(outputs, labels):
    return losses.DetectionLoss(CFG)(outputs, labels)


def metric(outputs, labels):
    return evaluate.evaluate(CFG, outputs, labels)


def build_optimizer(model):
    return solver.build_optimizer(CFG, model)


def build_scheduler(optimizer):
    return solver.build_scheduler(CFG, optimizer)


def predict(path, model):
    image = np.asarray(Image.open(path).convert("RGB"))
    sample = transforms("val")({"image": image, "boxes": np.zeros((0, 5), "float32")})
    parameter = next(model.parameters())
    with torch.no_grad():
        out = model(torch.from_numpy(sample["image"])[None].to(parameter))
    boxes, scores, classes = evaluate.detect(CFG, out["logits"][0], out["deltas"][0])
    return {"boxes": boxes.numpy(), "scores": scores.numpy(), "classes": classes.numpy()}
