import glob

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image

H, W, NC = 37, 29, 4
MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]


class Resize:
    def __call__(self, s):
        return s[0].resize((W, H), Image.BILINEAR), s[1].resize((W, H), Image.NEAREST)


class PadToTensor:
    def __call__(self, s):
        img = torch.from_numpy(np.array(s[0])).permute(2, 0, 1).float().div(255)
        return img, torch.from_numpy(np.array(s[1])).long()


class Normalize:
    def __call__(self, s):
        mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
        return (s[0] - mean) / std, s[1]


class Compose:
    def __init__(self, ts):
        self.transforms = ts

    def __call__(self, s):
        for t in self.transforms:
            s = t(s)
        return s


def transforms(split):
    return Compose([Resize(), PadToTensor(), Normalize()])


class Shapes(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.files = sorted(f for f in glob.glob("images/*.png") if not f.endswith("_mask.png"))
        self.transform = transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        img = Image.open(self.files[i]).convert("RGB")
        mask = Image.open(self.files[i].replace(".png", "_mask.png"))
        return self.transform((img, mask))


def build_dataset(split):
    return Shapes(transforms(split))


def build_dataloader(split):
    return torch.utils.data.DataLoader(build_dataset(split), batch_size=3)


def double_conv(a, b):
    return nn.Sequential(
        nn.Conv2d(a, b, 3, padding=1, padding_mode="reflect", bias=False), nn.BatchNorm2d(b, eps=1e-3, momentum=0.03), nn.SiLU(inplace=True),
        nn.Conv2d(b, b, 3, padding=1, padding_mode="reflect", bias=False), nn.BatchNorm2d(b, eps=1e-3, momentum=0.03), nn.SiLU(inplace=True))


class Gate(nn.Module):
    """attention gate on the skip connection"""

    def __init__(self, f_g, f_x, f):
        super().__init__()
        self.wg = nn.Sequential(nn.Conv2d(f_g, f, 1), nn.InstanceNorm2d(f))
        self.wx = nn.Sequential(nn.Conv2d(f_x, f, 1), nn.InstanceNorm2d(f))
        self.psi = nn.Conv2d(f, 1, 1)

    def forward(self, g, x):
        return x * torch.sigmoid(self.psi(F.relu(self.wg(g) + self.wx(x))))


class UNet(nn.Module):
    def __init__(self, w=6):
        super().__init__()
        self.inc = double_conv(3, w)
        self.down1 = nn.Sequential(nn.MaxPool2d(2, ceil_mode=True), double_conv(w, 2 * w))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), double_conv(2 * w, 2 * w))
        self.gate1 = Gate(2 * w, 2 * w, w)
        self.gate2 = Gate(w, w, 4)
        self.up1 = double_conv(4 * w, w)
        self.up2 = double_conv(2 * w, w)
        self.drop = nn.Dropout2d(0.1)
        self.outc = nn.Conv2d(w, NC, 1)
        self.aux = nn.Conv2d(2 * w, NC, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        aux = F.interpolate(self.aux(x3), size=x.shape[2:], mode="bilinear", align_corners=True)
        u = F.interpolate(x3, size=x2.shape[2:], mode="bilinear", align_corners=False)
        u = self.up1(torch.cat([self.gate1(u, x2), u], 1))
        u = F.interpolate(u, size=x1.shape[2:], mode="bilinear", align_corners=False)
        u = self.up2(torch.cat([self.gate2(u, x1), u], 1))
        return {"out": self.outc(self.drop(u)), "aux": aux}


def build_model():
    return UNet()


CLASS_WEIGHT = [0.4, 1.0, 1.5, 1.2]


def dice(p, y, eps=1.0):
    valid = (y != 255).unsqueeze(1)
    t = F.one_hot(y.masked_fill(y == 255, 0), NC).permute(0, 3, 1, 2) * valid
    p = p.softmax(1) * valid
    inter = (p * t).sum((0, 2, 3))
    return 1 - ((2 * inter + eps) / (p.sum((0, 2, 3)) + t.sum((0, 2, 3)) + eps))[1:].mean()


def loss(out, y):
    w = torch.tensor(CLASS_WEIGHT, dtype=out["out"].dtype)
    ce = F.cross_entropy(out["out"], y, weight=w, ignore_index=255)
    aux = F.cross_entropy(out["aux"], y, ignore_index=255)
    return ce + dice(out["out"], y) + 0.4 * aux


def metric(out, y):
    pred = out["out"].argmax(1)
    k = y != 255
    conf = torch.bincount(NC * y[k] + pred[k], minlength=NC * NC).view(NC, NC).double()
    iou = conf.diag() / (conf.sum(0) + conf.sum(1) - conf.diag()).clamp(min=1)
    freq = conf.sum(1) / conf.sum()
    return {"miou": iou.mean().item(), "fwiou": (freq * iou).sum().item(), "pixel_acc": (conf.diag().sum() / conf.sum()).item()}


def build_optimizer(model):
    bn = [p for m in model.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()]
    ids = set(map(id, bn))
    head = list(model.outc.parameters()) + list(model.aux.parameters())
    ids_h = set(map(id, head))
    rest = [p for p in model.parameters() if id(p) not in ids | ids_h]
    return torch.optim.SGD([{"params": rest}, {"params": bn, "weight_decay": 0}, {"params": head, "lr": 0.05}],
                           lr=0.01, momentum=0.9, weight_decay=5e-4)


def build_scheduler(opt):
    return torch.optim.lr_scheduler.PolynomialLR(opt, total_iters=10, power=0.9)


@torch.no_grad()
def predict(path, model):
    img = Image.open(path).convert("RGB")
    size = img.size
    x, _ = transforms("val")((img, Image.new("L", size)))
    x = x.unsqueeze(0).to(next(model.parameters()).dtype)
    p = model(x)["out"].softmax(1)
    p = (p + model(x.flip(3))["out"].softmax(1).flip(3)) / 2
    p = F.interpolate(p, size=(size[1], size[0]), mode="bilinear", align_corners=False)[0]
    return {"prob": p.numpy(), "area": [(p.argmax(0) == c).sum().item() for c in range(NC)]}
