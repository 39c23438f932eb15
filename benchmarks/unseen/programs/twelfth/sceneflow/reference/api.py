from pathlib import Path

import torch

from flownet.config import CONFIG
from flownet.data import SceneFlowPairs, make_loader
from flownet.evaluate import flow_metrics
from flownet.losses import FlowLoss
from flownet.model import SceneFlowNet
from flownet.optim import make_optimizer, make_schedule

criterion = FlowLoss()


def build_model():
    return SceneFlowNet(CONFIG.net)


def build_dataset(split):
    return SceneFlowPairs(split)


def build_dataloader(split):
    return make_loader(split)


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    return flow_metrics(outputs, labels)


def build_optimizer(model):
    return make_optimizer(model)


def build_scheduler(optimizer):
    return make_schedule(optimizer)


@torch.no_grad()
def predict(path, model):
    """Flow in metres between both sweeps of one scene."""
    data = SceneFlowPairs("val")
    source, target, _, _ = data.load(Path(path), gap=0.1)
    dtype = next(model.parameters()).dtype
    pair = [torch.from_numpy(x).to(dtype).unsqueeze(0) for x in (source, target)]
    flow = model(*pair)["flow"][0] * data.scale["position"]
    return {"flow": flow.numpy(), "mean_length": float(flow.norm(dim=-1).mean())}
