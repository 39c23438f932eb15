import math
import os
from glob import glob

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from PIL import Image

from layers import Downsample, SwinLayer

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "images")
CLASSES = 6


class WindowTransformer(nn.Layer):
    def __init__(self, width=16, rates=(0.0, 0.2 / 3, 0.4 / 3, 0.2)):
        super().__init__()
        self.classifier = nn.Linear(2 * width, CLASSES)
        self.stem = nn.Conv2D(3, width, kernel_size=4, stride=4)
        self.stem_ln = nn.LayerNorm(width)
        self.stage1 = nn.Sequential(SwinLayer(width, 8, 2, shift=0, drop_prob=rates[0]), SwinLayer(width, 8, 2, shift=2, drop_prob=rates[1]))
        self.down = Downsample(width, 8)
        self.stage2 = nn.Sequential(SwinLayer(2 * width, 4, 4, drop_prob=rates[2]), SwinLayer(2 * width, 4, 4, drop_prob=rates[3]))
        self.final_ln = nn.LayerNorm(2 * width)

    def forward(self, image):
        t = self.stem(image)
        t = self.stem_ln(t.transpose([0, 2, 3, 1]).flatten(1, 2))
        t = self.stage2(self.down(self.stage1(t)))
        return self.classifier(self.final_ln(t).mean(axis=1))


def build_model():
    return WindowTransformer()


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels, soft_label=True)


def metric(outputs, labels):
    same = paddle.argmax(outputs, axis=1) == paddle.argmax(labels, axis=1)
    return {"top1": float(same.astype("float32").mean()), "soft_ce": float(-(labels * F.log_softmax(outputs)).sum(axis=1).mean())}


class MixupSet(paddle.io.Dataset):
    MEAN = np.array([0.485, 0.456, 0.406], "float32")
    STD = np.array([0.229, 0.224, 0.225], "float32")

    def __init__(self, part):
        super().__init__()
        self.paths = sorted(glob(os.path.join(ROOT, part, "*.png")))

    def image(self, path):
        a = np.asarray(Image.open(path).convert("RGB")).astype("float32") / 255
        t = F.interpolate(paddle.to_tensor(a.transpose(2, 0, 1)[None]), size=[36, 36], mode="bicubic")
        a = np.clip(t[0].numpy(), 0, 1)[:, 2:-2, 2:-2]
        return (a - self.MEAN[:, None, None]) / self.STD[:, None, None]

    def target(self, path):
        y = np.full([CLASSES], 0.1 / CLASSES, "float32")
        y[int(os.path.basename(path).split("_")[0])] += 0.9
        return y

    def __getitem__(self, i):
        p, q = self.paths[i], self.paths[(i + 1) % len(self.paths)]
        share = np.random.RandomState(i).beta(0.8, 0.8)
        mix = lambda a, b: (share * a + (1 - share) * b).astype("float32")
        return mix(self.image(p), self.image(q)), mix(self.target(p), self.target(q))

    def __len__(self):
        return len(self.paths)


def build_dataset(split):
    return MixupSet(split)


def build_dataloader(split):
    return paddle.io.DataLoader(MixupSet(split), batch_size=2, shuffle=False)


class Schedule(paddle.optimizer.lr.LRScheduler):
    def get_lr(self):
        i, top = self.last_epoch, self.base_lr
        if i < 2:
            return 1e-5 + (top - 1e-5) * i / 2
        return 5e-6 + (top - 5e-6) * (math.cos(i / 8 * math.pi) + 1) / 2


def build_optimizer(model):
    free = [p for n, p in model.named_parameters() if n.endswith("bias") or n.endswith("bias_table") or p.ndim == 1]
    ids = {id(p) for p in free}
    groups = [{"params": free, "weight_decay": 0.0}, {"params": [p for p in model.parameters() if id(p) not in ids], "weight_decay": 0.05}]
    return paddle.optimizer.AdamW(learning_rate=Schedule(5e-4), parameters=groups, weight_decay=0.05)


def build_scheduler(optimizer):
    return optimizer._learning_rate
