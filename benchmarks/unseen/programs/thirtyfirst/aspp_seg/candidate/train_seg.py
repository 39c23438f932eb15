import os
import sys

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ws_layers import ConvNormAct, ResidualUnit, plain_conv  # noqa: E402

DATA_ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
NUM_CLASSES, VOID = 4, 255


class Normalize:
    def __init__(self, mean=(0.40, 0.42, 0.44), std=0.22):
        self.mean, self.std = np.array(mean, "float32"), np.float32(std)

    def __call__(self, img):
        return np.ascontiguousarray(((img.astype("float32") / 255.0 - self.mean) / self.std).transpose(2, 0, 1))


class SegDataset(paddle.io.Dataset):
    def __init__(self, split, transform=None):
        with np.load(os.path.join(DATA_ROOT, f"{split}.npz")) as f:
            self.images, self.masks = f["image"].copy(), f["label"].astype("int64")
        if split == "train":
            self.images[::3] = self.images[::3, :, ::-1].copy()
            self.masks[::3] = self.masks[::3, :, ::-1].copy()
        self.transform = transform or Normalize()

    def __getitem__(self, i):
        return self.transform(self.images[i]), self.masks[i]

    def __len__(self):
        return self.images.shape[0]


class AtrousPyramid(nn.Layer):
    def __init__(self, cin, width, rates):
        super().__init__()
        self.merge = ConvNormAct(width * (len(rates) + 2), width, 1)
        self.image_level = nn.Sequential(nn.AdaptiveAvgPool2D(1), plain_conv(cin, width), nn.ReLU())
        self.pointwise = ConvNormAct(cin, width, 1)
        self.atrous = nn.LayerList([ConvNormAct(cin, width, rate=r) for r in rates])
        self.drop = nn.Dropout2D(0.1)

    def forward(self, x):
        whole = self.image_level(x)
        feats = [self.pointwise(x)] + [f(x) for f in self.atrous]
        feats.append(whole.tile([1, 1, x.shape[2], x.shape[3]]))
        return self.drop(self.merge(paddle.concat(feats, axis=1)))


class SegModel(nn.Layer):
    def __init__(self, width=16, head_width=8, rates=(1, 2, 4)):
        super().__init__()
        self.stem = nn.Sequential(ConvNormAct(3, width // 2), ConvNormAct(width // 2, width, stride=2))
        self.stages = nn.Sequential(*[ResidualUnit(width, r) for r in (1, 2)])
        self.aux_head = plain_conv(width, NUM_CLASSES)
        prior = np.zeros(NUM_CLASSES, "float32")
        prior[0] = 1.0
        self.head = nn.Sequential(AtrousPyramid(width, head_width, rates), plain_conv(head_width, NUM_CLASSES, prior))

    def forward(self, x):
        feat = self.stages(self.stem(x))
        heads = [self.head] + ([self.aux_head] if self.training else [])
        return tuple(F.interpolate(h(feat), x.shape[2:], mode="bilinear", align_corners=False) for h in heads)

    def slow_parameters(self):
        return self.stem.parameters() + self.stages.parameters()


class SegLoss(nn.Layer):
    def __init__(self, weights=(0.5, 1.0, 1.0, 1.5), dice=0.5, aux=0.4):
        super().__init__()
        self.ce = nn.CrossEntropyLoss(weight=paddle.to_tensor(weights, dtype="float32"), ignore_index=VOID, axis=1)
        self.mix = [1.0, aux]
        self.dice = dice

    def soft_dice(self, logits, mask):
        keep = (mask != VOID).astype("float32").unsqueeze(1)
        p = F.softmax(logits, axis=1) * keep
        classes = paddle.arange(NUM_CLASSES).reshape([1, -1, 1, 1])
        t = (mask.unsqueeze(1) == classes).astype("float32")  # the void label equals no class
        overlap = paddle.sum(p * t, axis=[0, 2, 3])
        return paddle.mean(1 - (2 * overlap + 1) / (p.sum([0, 2, 3]) + t.sum([0, 2, 3]) + 1))

    def forward(self, outs, mask):
        ce = [self.ce(o, mask) for o in outs]
        dice = self.soft_dice(outs[0], mask)
        return {"ce": ce[0], "dice": dice, "loss": sum(m * c for m, c in zip(self.mix, ce)) + self.dice * dice}


criterion = SegLoss()


def build_model():
    return SegModel()


def build_dataset(split):
    return SegDataset(split)


def build_dataloader(split):
    return paddle.io.DataLoader(SegDataset(split), batch_size=8, shuffle=split == "train")


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    guess, truth = outputs[0].numpy().argmax(1).ravel(), labels.numpy().ravel()
    guess, truth = guess[truth != VOID], truth[truth != VOID]
    ious = []
    for k in range(NUM_CLASSES):
        union = np.sum((guess == k) | (truth == k))
        if union:
            ious.append(np.sum((guess == k) & (truth == k)) / union)
    return {"pixel_acc": float(np.mean(guess == truth)), "miou": float(np.mean(ious))}


def build_optimizer(model):
    slow = model.slow_parameters()
    ids = set(map(id, slow))
    fast = [p for p in model.parameters() if id(p) not in ids]
    sched = paddle.optimizer.lr.PolynomialDecay(0.01, decay_steps=112, end_lr=0.0, power=0.9)
    return paddle.optimizer.Momentum(
        sched, 0.9, use_nesterov=True, weight_decay=paddle.regularizer.L2Decay(5e-4),
        parameters=[{"params": fast, "learning_rate": 10.0}, {"params": slow, "learning_rate": 1.0}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch, accumulate=2):
    model.train()
    images, labels = batch
    shown = 0.0
    for x, y in zip(paddle.chunk(images, accumulate), paddle.chunk(labels, accumulate)):
        value = loss(model(x), y)["loss"]
        (value / accumulate).backward()
        shown += float(value) / accumulate
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": shown, "lr": optimizer.get_lr()}


def read_ppm(path):
    with open(path, "rb") as f:
        assert f.readline().strip() == b"P6"
        w, h = (int(v) for v in f.readline().split())
        f.readline()
        return np.frombuffer(f.read(), dtype="uint8").reshape(h, w, 3)


def predict(path, model):
    model.eval()
    x = Normalize()(read_ppm(path))
    with paddle.no_grad():
        (logits,) = model(paddle.to_tensor(np.stack([x, x[:, :, ::-1]])))
    p = F.softmax(logits, axis=1).numpy()
    p = 0.5 * (p[0] + p[1][:, :, ::-1])
    return {"mask": p.argmax(0).astype("uint8"), "prob": p}
