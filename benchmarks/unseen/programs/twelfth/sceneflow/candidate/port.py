import numpy as np
import paddle

from nets import FlowNet
from objectives import evaluate, flow_loss
from scenes import Scenes, loader, prepare, statistics
from settings import SETTINGS
from training import adam


def build_model():
    return FlowNet(SETTINGS["net"])


build_dataset = Scenes
build_dataloader = loader
loss = flow_loss
metric = evaluate
build_optimizer = adam


def build_scheduler(optimizer):
    return optimizer._learning_rate


def predict(path, model):
    item = prepare(np.load(path), 0.1)
    scale = float(statistics()[0])
    dtype = model.parameters()[0].dtype
    with paddle.no_grad():
        out = model(*(paddle.to_tensor(item[k]).astype(dtype).unsqueeze(0) for k in ("source", "target")))
        flow = out["flow"].squeeze(0) * scale
        return {"flow": flow.numpy(), "mean_length": float(paddle.linalg.norm(flow, axis=-1).mean())}
