"""Which photograph, and turned how far?  Patches of scikit-learn's two sample images (PyTorch)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from sklearn.datasets import load_sample_image
from torch.utils.data import DataLoader, Dataset

SIZE, CLASSES, BATCH, EPOCHS = 16, 8, 12, 8
MEAN = np.array([0.45, 0.42, 0.38], dtype=np.float32)
STD = np.array([0.27, 0.26, 0.28], dtype=np.float32)
NAMES = [f"{n}@{r}" for n in ("china", "flower") for r in (0, 90, 180, 270)]


def to_tensor(patch):
    x = (patch.astype(np.float32) / 255.0 - MEAN) / STD
    return torch.from_numpy(x).permute(2, 0, 1).contiguous()


class Patches(Dataset):
    def __init__(self, split):
        self.images = [load_sample_image(f"{n}.jpg")[::5, ::5] for n in ("china", "flower")]
        self.train = split == "train"
        self.n = 168 if self.train else 48

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng([int(self.train), i])
        label = i % CLASSES
        image = self.images[label // 4]
        half = image.shape[1] // 2                       # left half to train on, right half to validate
        image = image[:, :half] if self.train else image[:, half:]
        top = rng.integers(0, image.shape[0] - SIZE + 1)
        left = rng.integers(0, image.shape[1] - SIZE + 1)
        patch = image[top:top + SIZE, left:left + SIZE]
        if self.train and rng.random() < 0.5:
            patch = patch[:, ::-1]
        patch = np.rot90(patch, k=label % 4)
        return to_tensor(np.ascontiguousarray(patch)), torch.tensor(label)


class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.depth = nn.Conv2d(cin, cin, 3, stride=2, padding=1, groups=cin, bias=False)
        self.bn1 = nn.BatchNorm2d(cin)
        self.point = nn.Conv2d(cin, cout, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.se = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(cout, 4, 1), nn.ReLU(), nn.Conv2d(4, cout, 1), nn.Hardsigmoid())
        self.down = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(cin, cout, 1))

    def forward(self, x):
        y = F.hardswish(self.bn1(self.depth(x)))
        y = self.bn2(self.point(y))
        return F.relu(y * self.se(y) + self.down(x))


class PatchNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 10, 3, padding=1, bias=False), nn.BatchNorm2d(10), nn.ReLU(inplace=True))
        self.stage1 = Block(10, 16)
        self.stage2 = Block(16, 24)
        self.lateral = nn.Conv2d(24, 16, 1)
        self.drop = nn.Dropout2d(0.1)
        self.exit1 = nn.Linear(16, CLASSES)
        self.exit2 = nn.Linear(24 + 16, CLASSES)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_in", nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=0.01)
                nn.init.zeros_(m.bias)
        nn.init.constant_(self.stage1.bn2.weight, 0.5)
        nn.init.constant_(self.stage2.bn2.weight, 0.5)

    def forward(self, x):
        low = self.stage1(self.stem(x))
        high = self.stage2(low)
        merged = low + F.interpolate(self.lateral(high), scale_factor=2, mode="bilinear", align_corners=False)
        merged = self.drop(merged)
        early = self.exit1(low.mean((2, 3)))
        late = self.exit2(torch.cat([high.mean((2, 3)), merged.amax((2, 3))], dim=1))
        return early, late


def build_model():
    return PatchNet()


def build_dataset(split):
    return Patches(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=BATCH, shuffle=split == "train", num_workers=0)


def loss(outputs, labels):
    early, late = outputs
    if labels.dim() == 1:
        labels = F.one_hot(labels, CLASSES).float()
    return 0.3 * F.cross_entropy(early, labels) + 0.7 * F.cross_entropy(late, labels)


@torch.no_grad()
def metric(outputs, labels):
    early, late = (o.softmax(-1) for o in outputs)
    result = {}
    for name, p in (("early", early), ("late", late)):
        result[f"{name}_acc"] = (p.argmax(1) == labels).float().mean().item()
        result[f"{name}_top3"] = (p.topk(3).indices == labels[:, None]).any(1).float().mean().item()
    result["photo_acc"] = (late.argmax(1) // 4 == labels // 4).float().mean().item()
    left = early.max(1).values > 0.2                      # would leave at the first exit
    both = torch.where(left[:, None], early, late)
    result["exit_rate"] = left.float().mean().item()
    result["adaptive_acc"] = (both.argmax(1) == labels).float().mean().item()
    return result


def build_optimizer(model):
    groups = {"body": [], "heads": [], "plain": []}
    for name, p in model.named_parameters():
        key = "plain" if p.ndim == 1 else "heads" if name.startswith("exit") else "body"
        groups[key].append(p)
    return torch.optim.SGD([
        {"params": groups["body"], "lr": 0.05, "weight_decay": 5e-4},
        {"params": groups["heads"], "lr": 0.15, "weight_decay": 5e-4},
        {"params": groups["plain"], "lr": 0.05, "weight_decay": 0.0},
    ], lr=0.05, momentum=0.9, nesterov=True)


def build_scheduler(optimizer):
    total, warm = EPOCHS * 14, 10
    linear = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=warm)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total - warm)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [linear, cosine], milestones=[warm])


def mixup(x, y, alpha=0.4):
    lam = float(np.random.beta(alpha, alpha))
    order = torch.from_numpy(np.random.permutation(len(x)))
    y = F.one_hot(y, CLASSES).float()
    return lam * x + (1 - lam) * x[order], lam * y + (1 - lam) * y[order], lam


def train_step(model, optimizer, batch):
    model.train()
    x, y, lam = mixup(*batch)
    value = loss(model(x), y)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return {"loss": value.item(), "lam": lam}


@torch.no_grad()
def predict(path, model):
    model.eval()
    picture = np.asarray(Image.open(path).convert("RGB"))
    rows = range(0, picture.shape[0] - SIZE + 1, SIZE)
    cols = range(0, picture.shape[1] - SIZE + 1, SIZE)
    tiles = torch.stack([to_tensor(picture[r:r + SIZE, c:c + SIZE]) for r in rows for c in cols])
    prob = model(tiles)[1].softmax(-1)
    mean = prob.mean(0)
    return {"tiles": prob.view(len(rows), len(cols), CLASSES).numpy(), "mean": mean.numpy(),
            "label": NAMES[int(mean.argmax())]}
