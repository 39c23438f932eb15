"""Texture classifier: inverted residuals with squeeze-excite at the bottom, ConvNeXt blocks at the top.

Training recipe as in TF's EfficientNet: RMSprop with epsilon under the root, exponential decay by epochs, EMA of the weights.
"""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES = 6
BATCH = 4
CROP = 24
MEAN = (0.44, 0.42, 0.40)
STD = (0.21, 0.20, 0.19)
SMOOTHING = 0.1
LR, WD, RHO, MOMENTUM, EPS = 0.004, 1e-4, 0.9, 0.9, 1e-3
EMA_DECAY = 0.95
STEPS_PER_EPOCH, WARMUP_EPOCHS, DECAY_EPOCHS, DECAY_RATE = 7, 2, 2.4, 0.9


class Textures(Dataset):
    """first 28 for training, the others for validation; training pictures are turned by their number"""

    def __init__(self, train):
        z = np.load("textures.npz")
        sel = slice(0, 28) if train else slice(28, None)
        self.x, self.y, self.train = z["images"][sel], z["labels"][sel].astype(np.int64), train

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        img = self.x[i]
        if self.train:
            img = np.rot90(img, k=i % 4)
            off = (i % 5, (2 * i) % 5)
        else:
            off = (2, 2)
        img = img[off[0]:off[0] + CROP, off[1]:off[1] + CROP]
        return normalize(img), int(self.y[i])


def normalize(img):
    t = torch.from_numpy(np.ascontiguousarray(img)).permute(2, 0, 1).float().div(255)
    return t.sub(torch.tensor(MEAN)[:, None, None]).div(torch.tensor(STD)[:, None, None])


def build_dataset(split):
    return Textures(split == "train")


def build_dataloader(split):
    return DataLoader(Textures(split == "train"), BATCH, shuffle=False)


def drop_path(x, p, training):
    if p == 0.0 or not training:
        return x
    keep = 1.0 - p
    mask = x.new_empty(x.shape[0], 1, 1, 1).bernoulli_(keep)
    return x * mask / keep


class SE(nn.Module):
    def __init__(self, ch, reduced):
        super().__init__()
        self.reduce = nn.Conv2d(ch, reduced, 1)
        self.expand = nn.Conv2d(reduced, ch, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.expand(F.silu(self.reduce(s))))


def bn(ch):
    return nn.BatchNorm2d(ch, eps=1e-3, momentum=0.01)


class MBConv(nn.Module):
    def __init__(self, cin, cout, k, stride, ratio, drop):
        super().__init__()
        mid = cin * ratio
        self.pw = nn.Sequential(nn.Conv2d(cin, mid, 1, bias=False), bn(mid), nn.SiLU()) if ratio != 1 else nn.Identity()
        self.dw = nn.Sequential(nn.Conv2d(mid, mid, k, stride, k // 2, groups=mid, bias=False), bn(mid), nn.SiLU())
        self.se = SE(mid, max(1, cin // 4))
        self.pwl = nn.Sequential(nn.Conv2d(mid, cout, 1, bias=False), bn(cout))
        self.skip, self.drop = stride == 1 and cin == cout, drop

    def forward(self, x):
        y = self.pwl(self.se(self.dw(self.pw(x))))
        return x + drop_path(y, self.drop, self.training) if self.skip else y


class LayerNorm2d(nn.Module):
    """over the channels of [B, C, H, W]"""

    def __init__(self, ch, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ch))
        self.bias = nn.Parameter(torch.zeros(ch))
        self.eps = eps

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class NextBlock(nn.Module):
    def __init__(self, ch, drop, scale):
        super().__init__()
        self.dw = nn.Conv2d(ch, ch, 7, padding=3, groups=ch)
        self.norm = LayerNorm2d(ch)
        self.fc1 = nn.Linear(ch, 4 * ch)
        self.fc2 = nn.Linear(4 * ch, ch)
        self.gamma = nn.Parameter(scale * torch.ones(ch))
        self.drop = drop

    def forward(self, x):
        y = self.norm(self.dw(x)).permute(0, 2, 3, 1)
        y = self.gamma * self.fc2(F.gelu(self.fc1(y)))
        return x + drop_path(y.permute(0, 3, 1, 2), self.drop, self.training)


class Down(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(LayerNorm2d(cin), nn.Conv2d(cin, cout, 2, 2))


class Hybrid(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3, 1, 1, bias=False), bn(12), nn.SiLU())
        self.bottom = nn.Sequential(
            MBConv(12, 12, 3, 1, 1, 0.0),
            MBConv(12, 16, 3, 2, 4, 0.04),
            MBConv(16, 16, 5, 1, 4, 0.08),
        )
        self.down = Down(16, 24)
        self.top = nn.Sequential(NextBlock(24, 0.12, 0.2), NextBlock(24, 0.16, 0.2))
        self.norm = nn.LayerNorm(24, eps=1e-6)
        self.fc = nn.Linear(24, CLASSES)
        self.apply(self.init)

    @staticmethod
    def init(m):
        if isinstance(m, nn.Conv2d):
            fan = m.kernel_size[0] * m.kernel_size[1] * m.out_channels // m.groups
            nn.init.normal_(m.weight, 0.0, (2.0 / fan) ** 0.5)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Linear):
            nn.init.trunc_normal_(m.weight, std=0.1)
            nn.init.zeros_(m.bias)

    def forward(self, x):
        x = self.top(self.down(self.bottom(self.stem(x))))
        return self.fc(self.norm(x.mean((-2, -1))))


class WithEma(nn.Module):
    """a network and its moving average"""

    def __init__(self, net):
        super().__init__()
        self.net = net
        self.ema = copy.deepcopy(net)
        for p in self.ema.parameters():
            p.requires_grad_(False)

    def forward(self, x):
        return self.net(x)

    @torch.no_grad()
    def update(self):
        for e, p in zip(self.ema.state_dict().values(), self.net.state_dict().values()):
            if e.dtype.is_floating_point:
                e.mul_(EMA_DECAY).add_(p, alpha=1 - EMA_DECAY)
            else:
                e.copy_(p)


def build_model():
    return WithEma(Hybrid())


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels, label_smoothing=SMOOTHING)


def metric(outputs, labels):
    top = outputs.topk(3, 1).indices
    hit = top == labels[:, None]
    recalls = [(top[labels == c, 0] == c).float().mean().item() for c in range(CLASSES) if (labels == c).any()]
    return {"top1": hit[:, 0].float().mean().item(), "top3": hit.any(1).float().mean().item(), "recall": sum(recalls) / len(recalls)}


class RMSpropTF(torch.optim.Optimizer):
    """RMSprop of TensorFlow: epsilon inside the root, the rate inside the momentum buffer, coupled weight decay."""

    def __init__(self, params, lr, rho, momentum, eps, weight_decay):
        super().__init__(params, dict(lr=lr, rho=rho, momentum=momentum, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.add(p, alpha=group["weight_decay"])
                st = self.state[p]
                if len(st) == 0:
                    st["sq"], st["buf"] = torch.zeros_like(p), torch.zeros_like(p)
                st["sq"].add_(grad * grad - st["sq"], alpha=1 - group["rho"])
                st["buf"].mul_(group["momentum"]).addcdiv_(grad, (st["sq"] + group["eps"]).sqrt(), value=group["lr"])
                p.sub_(st["buf"])


def build_optimizer(model):
    return RMSpropTF(model.net.parameters(), LR, RHO, MOMENTUM, EPS, WD)


def build_scheduler(optimizer):
    """rate for each step: linear warm-up over epochs, then decay by whole stairs of 2.4 epochs"""

    def factor(step):
        epoch = step // STEPS_PER_EPOCH
        if epoch < WARMUP_EPOCHS:
            return 0.1 + 0.9 * step / (WARMUP_EPOCHS * STEPS_PER_EPOCH)
        return DECAY_RATE ** (epoch // DECAY_EPOCHS)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    images, labels = batch
    optimizer.zero_grad()
    value = loss(model(images), labels)
    value.backward()
    optimizer.step()
    model.update()
    return value.detach()


def predict(path, model):
    """mean of the averaged network's probabilities over the centre crop and its four corners"""
    img = np.load(path)
    s = img.shape[0] - CROP
    crops = [img[y:y + CROP, x:x + CROP] for y, x in ((s // 2, s // 2), (0, 0), (0, s), (s, 0), (s, s))]
    x = torch.stack([normalize(c) for c in crops]).to(next(model.parameters()).dtype)
    model.ema.eval()
    with torch.no_grad():
        p = model.ema(x).softmax(-1).mean(0)
    return {"label": int(p.argmax()), "prob": p.numpy()}
