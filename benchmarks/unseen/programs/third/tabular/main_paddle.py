"""Quantile and rate forecasts of bike stations, PaddlePaddle."""
import numpy as np
import paddle
from paddle.io import DataLoader

from forecast import training
from forecast.frame import PREPARED, Hours, columns
from forecast.network import MultiTask
from forecast.settings import SETTINGS

loss = training.uncertainty_loss
metric = training.evaluate


def build_dataset(split):
    return Hours(split)


def build_dataloader(split):
    return DataLoader(Hours(split), batch_size=SETTINGS["data"]["batch_size"], drop_last=split == "train")


def build_model():
    return MultiTask(PREPARED)


def build_optimizer(model):
    return training.LAMB(model, paddle.optimizer.lr.PolynomialDecay(**SETTINGS["optimizer"]["rate"]))


def build_scheduler(optimizer):
    return optimizer._learning_rate


@paddle.no_grad()
def predict(path, model):
    cats, nums = PREPARED.inputs(columns(path))
    outputs = model(paddle.to_tensor(cats), paddle.to_tensor(nums, dtype=model.enter.weight.dtype))
    answer = {}
    for task in SETTINGS["tasks"]:
        name = task["name"]
        values = outputs[name].numpy()
        centre, spread = PREPARED.scale[name]
        answer[name] = np.clip(values * spread + centre, 0, None) if "levels" in task else np.exp(values)
    return answer
