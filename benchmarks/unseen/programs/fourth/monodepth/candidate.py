"""PaddlePaddle port of the depth network: assembly, solver, prediction. The parts are in pd_depth."""
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader

from pd_depth.blocks import ConvBN, DilatedContext, InverseDepth, Residual, Up, resize
from pd_depth.criterion import DepthCriterion, Evaluator
from pd_depth.scenes import Scenes
from pd_depth.settings import DataConfig, NetConfig, SolverConfig

NET, DATA, SOLVER = NetConfig(), DataConfig(), SolverConfig()
FAR = NET.depth_range[1]
criterion = DepthCriterion(FAR)


class Backbone(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        w, m = cfg.widths, cfg.bn_momentum
        self.stem = ConvBN(3, w[0], 5, momentum=m)
        self.stages = nn.LayerList([Residual(a, b, 2, momentum=m) for a, b in zip(w[:-1], w[1:])])

    def forward(self, x):
        feats = [self.stem(x)]
        for stage in self.stages:
            feats.append(stage(feats[-1]))
        return feats


class MonoDepth(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.widths
        self.backbone = Backbone(cfg)
        self.context = DilatedContext(w[-1], cfg.dilations, cfg.context_slope)
        self.decoder = nn.LayerList([Up(w[i + 1], w[i], w[i], cfg.slope) for i in reversed(range(3))])
        self.out = InverseDepth(w[0], cfg.depth_range)
        self.aux = InverseDepth(w[1], cfg.depth_range)

    def forward(self, image):
        feats = self.backbone(image)
        x = self.context(feats.pop())
        scales = []
        for up in self.decoder:
            x = up(x, feats.pop())
            scales.append(x)
        half = self.aux(scales[-2])
        aux = F.interpolate(half, scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(scales[-1]), aux


def init_weights(layer):
    if isinstance(layer, nn.Conv2D):
        nn.initializer.KaimingNormal(negative_slope=0.2, nonlinearity="leaky_relu")(layer.weight)
        if layer.bias is not None:
            nn.initializer.Uniform(-0.1, 0.1)(layer.bias)


def build_model():
    net = MonoDepth(NET)
    net.apply(init_weights)
    return net


def build_dataset(split):
    return Scenes(split)


def transforms(split):
    return Scenes(split).transform


def batchify(samples):
    return [paddle.to_tensor(np.stack([s[k] for s in samples])) for k in ("image", "depth")]


def build_dataloader(split):
    return DataLoader(Scenes(split), batch_size=DATA.batch, shuffle=False, drop_last=(split == "train"), collate_fn=batchify)


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    evaluator = Evaluator(FAR)
    evaluator.update(outputs[0].numpy().astype("float64"), labels.numpy().astype("float64"))
    return evaluator.accumulate()


def build_optimizer(model):
    cfg = SOLVER
    rate = paddle.optimizer.lr.PolynomialDecay(cfg.base_lr, decay_steps=cfg.iterations, end_lr=0.0, power=cfg.power)
    others = [p for name, p in model.named_parameters() if not name.startswith("backbone.")]
    groups = [
        {"params": others},
        {"params": model.backbone.parameters(), "learning_rate": cfg.encoder_factor},
    ]
    return paddle.optimizer.Momentum(rate, momentum=cfg.momentum, parameters=groups, use_nesterov=True, weight_decay=cfg.l2)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def blend_weights(width, dtype):
    ramp = paddle.linspace(0, 1, width, dtype=dtype)
    left = 1 - paddle.clip((ramp - 0.05) * 20, 0.0, 1.0)
    return left, left.flip(axis=0)


@paddle.no_grad()
def predict(path, model):
    dtype = model.out.conv.weight.dtype
    picture = np.load(path).astype("float32") / 255
    picture = (picture - np.array(DATA.mean, "float32")) / np.array(DATA.std, "float32")
    x = paddle.to_tensor(picture.transpose(2, 0, 1)[None]).astype(dtype)
    small = resize(x, list(DATA.crop), corners=False)
    pair = paddle.concat([small, small.flip(axis=3)], axis=0)
    straight, mirrored = model(pair)[0].split(2, axis=0)
    mirrored = mirrored.flip(axis=3)
    left, right = blend_weights(DATA.crop[1], dtype)
    blended = right * straight + left * mirrored + (1 - left - right) * (straight + mirrored) / 2
    depth = resize(blended, list(picture.shape[:2]))
    return {"depth": paddle.clip(depth, *NET.depth_range)[0, 0].numpy()}
