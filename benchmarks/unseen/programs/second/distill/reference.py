"""Knowledge distillation: frozen teacher, light student, hint loss; a metric over the whole set."""
import torch
import torch.nn as nn
import torch.nn.functional as F

T, ALPHA, BETA = 4.0, 0.7, 0.5


def conv_bn(i, o, k=3, s=1, g=1, act=True):
    mods = [nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o, eps=1e-3, momentum=0.05)]
    if act:
        mods.append(nn.Hardswish(inplace=True))
    return nn.Sequential(*mods)


class Teacher(nn.Module):
    def __init__(self, n=7):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 2, 1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 24, 3, 2, 1)
        self.bn2 = nn.BatchNorm2d(24)
        self.conv3 = nn.Conv2d(24, 24, 3, 1, 1)
        self.fc = nn.Linear(24, n)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        f = F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.conv3(f) + f)
        return f, self.fc(x.mean((2, 3)))


class SE(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)

    def forward(self, x):
        s = F.relu(self.fc1(F.adaptive_avg_pool2d(x, 1)), inplace=True)
        return x * F.hardsigmoid(self.fc2(s))


class InvertedResidual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.block = nn.Sequential(conv_bn(c, 2 * c, 1), conv_bn(2 * c, 2 * c, 3, g=2 * c), SE(2 * c), conv_bn(2 * c, c, 1, act=False))

    def forward(self, x):
        return x + self.block(x)


class Student(nn.Module):
    def __init__(self, n=7):
        super().__init__()
        self.stem = conv_bn(3, 8, s=4)
        self.blocks = nn.Sequential(InvertedResidual(8), InvertedResidual(8))
        self.classifier = nn.Sequential(nn.Linear(8, 16), nn.Hardswish(inplace=True), nn.Dropout(0.2), nn.Linear(16, n))

    def forward(self, x):
        f = self.blocks(self.stem(x))
        return f, self.classifier(F.adaptive_avg_pool2d(f, 1).flatten(1))


class Distiller(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher = Teacher()
        self.student = Student()
        self.adapter = nn.Conv2d(8, 24, 1)
        for p in self.teacher.parameters():
            p.requires_grad = False
        self.teacher.eval()

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            tf, tl = self.teacher(x)
        sf, sl = self.student(x)
        sf = F.normalize(self.adapter(sf).flatten(2), dim=1)
        tf = F.normalize(tf.flatten(2), dim=1)
        return {"student": sl, "teacher": tl, "hint": (sf, tf)}


@torch.no_grad()
def warm_up(model):
    """give the norms statistics as a trained checkpoint has them"""
    g = torch.Generator().manual_seed(0)
    model.train()
    model.teacher.train()
    for _ in range(5):
        model(torch.randn(8, 3, 20, 20, generator=g))
    return model.eval()


def build_model():
    return warm_up(Distiller())


def loss(outputs, labels):
    s, t = outputs["student"], outputs["teacher"]
    kd = F.kl_div(F.log_softmax(s / T, dim=1), F.softmax(t / T, dim=1), reduction="batchmean") * T * T
    ce = F.cross_entropy(s, labels)
    a, b = outputs["hint"]
    hint = (1 - (a * b).sum(1)).mean()
    return ALPHA * kd + (1 - ALPHA) * ce + BETA * hint


def metric(outputs, labels):
    s, t = outputs["student"], outputs["teacher"]
    pred = s.argmax(1)
    conf = torch.zeros(7, 7, dtype=torch.long)
    conf.index_put_((labels, pred), torch.ones_like(labels), accumulate=True)
    tp = conf.diag().float()
    f1 = 2 * tp / (conf.sum(0) + conf.sum(1)).clamp(min=1)
    rank = (s.gather(1, labels[:, None]) < s).sum(1)
    return {"macro_f1": f1.mean().item(), "agreement": (pred == t.argmax(1)).float().mean().item(), "mrr": (1.0 / (rank + 1)).mean().item()}


def build_optimizer(model):
    params = list(model.student.parameters()) + list(model.adapter.parameters())
    return torch.optim.SGD(params, lr=0.05, momentum=0.9, weight_decay=1e-4)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6, eta_min=1e-3)
