"""PaddlePaddle port of the dynamic-graph PointNet."""
import numpy as np
import paddle
import paddle.nn.functional as F

from pointlib.geometry import orthogonality
from pointlib.nets import GraphPointNet
from pointlib.scans import ScanSet, pipeline
from pointlib.settings import DEFAULTS as CFG


def build_model():
    return GraphPointNet(CFG)


def build_dataset(split):
    return ScanSet(split, CFG)


def build_dataloader(split):
    return paddle.io.DataLoader(ScanSet(split, CFG), batch_size=4, shuffle=False, drop_last=(split == "train"))


def transforms(split):
    return pipeline(split, CFG)


def loss(outputs, labels):
    logits, turn = outputs
    target = F.label_smooth(F.one_hot(labels, CFG["classes"]).astype(logits.dtype), epsilon=CFG["smoothing"])
    nll = -(target * F.log_softmax(logits, axis=-1)).sum(axis=-1)
    return nll.mean() + CFG["ortho"] * orthogonality(turn)


def metric(outputs, labels):
    logits = outputs[0].numpy()
    y = labels.numpy()
    rank = np.argsort(-logits, axis=1)
    hit = rank[:, 0] == y
    counts = np.bincount(y, minlength=CFG["classes"])
    hits = np.bincount(y[hit], minlength=CFG["classes"])
    seen = counts > 0
    return {
        "oa": hit.mean(),
        "macc": (hits[seen] / counts[seen]).mean(),
        "top2": (rank[:, :2] == y[:, None]).any(axis=1).mean(),
    }


def build_optimizer(model):
    matrices = {p.name for p in model.parameters() if len(p.shape) > 1}
    rate = paddle.optimizer.lr.StepDecay(CFG["lr"], step_size=CFG["lr_step"], gamma=CFG["lr_gamma"])
    return paddle.optimizer.AdamW(rate, parameters=model.parameters(), weight_decay=CFG["decay"],
                                  apply_decay_param_fun=lambda name: name in matrices)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def predict(path, model):
    cloud = np.loadtxt(path)
    for step in pipeline("val", CFG):
        cloud = step(cloud)
    with paddle.no_grad():
        logits, _ = model(cloud.unsqueeze(0).astype(model.fc.weight.dtype))
    p = F.softmax(logits, axis=-1).squeeze(0).numpy()
    return {"class": int(np.argmax(p)), "prob": p, "entropy": float(-np.sum(p * np.log(p)))}
