"""Small DeepLab-like segmentation: dilated stem, ASPP, weight standardisation with group norm (Qiao et al. 2019)."""
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
CLASSES, IGNORE, BATCH, ACCUM = 4, 255, 8, 2
TOTAL = 8 * 14
CLASS_WEIGHTS = (0.5, 1.0, 1.0, 1.5)


def to_tensor(image):
    x = torch.from_numpy(np.array(image)).float().permute(2, 0, 1) / 255.0
    mean = torch.tensor([0.40, 0.42, 0.44]).view(3, 1, 1)
    return (x - mean) / 0.22


class Scenes(Dataset):
    def __init__(self, split):
        z = np.load(DATA / f"{split}.npz")
        self.image, self.label = z["image"], z["label"]
        self.flip = split == "train"

    def __len__(self):
        return len(self.image)

    def __getitem__(self, i):
        x, y = to_tensor(self.image[i]), torch.from_numpy(self.label[i].astype(np.int64))
        if self.flip and i % 3 == 0:  # deterministic mirror of every third picture
            x, y = x.flip(-1), y.flip(-1)
        return x, y


class WSConv2d(nn.Conv2d):
    def forward(self, x):
        w = self.weight
        w = w - w.mean(dim=(1, 2, 3), keepdim=True)
        w = w / (w.flatten(1).std(dim=1).view(-1, 1, 1, 1) + 1e-5)
        return F.conv2d(x, w, self.bias, self.stride, self.padding, self.dilation, self.groups)


def conv(cin, cout, k=3, d=1, stride=1):
    return nn.Sequential(WSConv2d(cin, cout, k, stride, padding=d * (k // 2), dilation=d, bias=False), nn.GroupNorm(4, cout), nn.ReLU(inplace=True))


class Residual(nn.Module):
    def __init__(self, c, d):
        super().__init__()
        self.a, self.b = conv(c, c, d=d), nn.Sequential(WSConv2d(c, c, 3, padding=d, dilation=d, bias=False), nn.GroupNorm(4, c))
        nn.init.constant_(self.b[1].weight, 0.2)

    def forward(self, x):
        return F.relu(x + self.b(self.a(x)))


class ASPP(nn.Module):
    def __init__(self, cin, cout, rates=(1, 2, 4)):
        super().__init__()
        self.branches = nn.ModuleList([conv(cin, cout, 1)] + [conv(cin, cout, 3, r) for r in rates])
        self.pool = nn.Conv2d(cin, cout, 1)
        self.project = conv(cout * (len(rates) + 2), cout, 1)
        self.drop = nn.Dropout2d(0.1)

    def forward(self, x):
        g = F.relu(self.pool(x.mean((2, 3), keepdim=True)))
        g = g.expand(-1, -1, *x.shape[2:])
        return self.drop(self.project(torch.cat([b(x) for b in self.branches] + [g], 1)))


class DeepLab(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(conv(3, 8), conv(8, 16, stride=2), Residual(16, 1), Residual(16, 2))
        self.aspp = ASPP(16, 8)
        self.classifier = nn.Conv2d(8, CLASSES, 1)
        self.aux = nn.Conv2d(16, CLASSES, 1)
        for m in self.modules():
            if type(m) is WSConv2d:
                nn.init.kaiming_uniform_(m.weight, nonlinearity="relu")
            elif type(m) is nn.Conv2d:
                nn.init.normal_(m.weight, std=0.05)
                nn.init.zeros_(m.bias)
        nn.init.constant_(self.classifier.bias[:1].data, 1.0)

    def forward(self, x):
        size = x.shape[-2:]
        f = self.backbone(x)
        up = lambda t: F.interpolate(t, size=size, mode="bilinear", align_corners=False)  # noqa: E731
        y = up(self.classifier(self.aspp(f)))
        if self.training:
            return y, up(self.aux(f))
        return (y,)


def build_model():
    return DeepLab()


def build_dataset(split):
    return Scenes(split)


def build_dataloader(split):
    return DataLoader(Scenes(split), batch_size=BATCH, shuffle=split == "train", num_workers=0)


def dice_loss(logits, target):
    valid = target != IGNORE
    prob = logits.softmax(1) * valid.unsqueeze(1)
    onehot = F.one_hot(target.masked_fill(~valid, 0), CLASSES).permute(0, 3, 1, 2).float() * valid.unsqueeze(1)
    inter, total = (prob * onehot).sum((0, 2, 3)), (prob + onehot).sum((0, 2, 3))
    return 1 - ((2 * inter + 1) / (total + 1)).mean()


def loss(outputs, labels):
    w = outputs[0].new_tensor(CLASS_WEIGHTS)
    ce = [F.cross_entropy(o, labels, weight=w, ignore_index=IGNORE) for o in outputs]
    dice = dice_loss(outputs[0], labels)
    value = ce[0] + 0.5 * dice
    if len(ce) > 1:
        value = value + 0.4 * ce[1]
    return {"loss": value, "ce": ce[0], "dice": dice}


class ConfusionMatrix:
    def __init__(self):
        self.m = torch.zeros(CLASSES, CLASSES)

    def update(self, pred, target):
        k = target != IGNORE
        self.m += torch.bincount(target[k] * CLASSES + pred[k], minlength=CLASSES**2).view(CLASSES, CLASSES)

    def compute(self):
        diag = self.m.diag()
        union = self.m.sum(0) + self.m.sum(1) - diag
        return {"miou": (diag[union > 0] / union[union > 0]).mean().item(), "pixel_acc": (diag.sum() / self.m.sum()).item()}


def metric(outputs, labels):
    cm = ConfusionMatrix()
    cm.update(outputs[0].argmax(1), labels)
    return cm.compute()


def build_optimizer(model):
    base = list(model.backbone.parameters())
    head = [p for m in (model.aspp, model.classifier, model.aux) for p in m.parameters()]
    return torch.optim.SGD([{"params": base, "lr": 0.01}, {"params": head, "lr": 0.1}], lr=0.01, momentum=0.9, weight_decay=5e-4, nesterov=True)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=TOTAL, power=0.9)


def train_step(model, optimizer, batch):
    model.train()
    images, labels = batch
    optimizer.zero_grad()
    total = 0.0
    for x, y in zip(images.chunk(ACCUM), labels.chunk(ACCUM)):
        part = loss(model(x), y)["loss"] / ACCUM
        part.backward()
        total += part.item()
    optimizer.step()
    return {"loss": total, "lr": optimizer.param_groups[0]["lr"]}


@torch.no_grad()
def predict(path, model):
    model.eval()
    raw = Path(path).read_bytes()
    w, h = map(int, raw.split(b"\n", 2)[1].split())
    image = np.frombuffer(raw[-w * h * 3 :], np.uint8).reshape(h, w, 3)
    x = to_tensor(image)[None]
    prob = (model(x)[0].softmax(1) + model(x.flip(-1))[0].flip(-1).softmax(1)) / 2  # mirrored twin
    return {"prob": prob[0].numpy(), "mask": prob[0].argmax(0).to(torch.uint8).numpy()}
