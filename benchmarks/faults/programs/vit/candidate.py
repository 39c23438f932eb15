"""The port to Paddle of the vision transformer."""

import paddle
from paddle import nn
from paddle.nn import functional as F

WIDTH, HEADS, CLASSES = 48, 4, 7


class DropPath(nn.Layer):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training or self.rate == 0:
            return x
        keep = 1 - self.rate
        mask = (paddle.rand([x.shape[0], 1, 1], dtype=x.dtype) < keep).astype(x.dtype)
        return x / keep * mask


class Attention(nn.Layer):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.scale = (WIDTH // HEADS) ** -0.5

    def forward(self, x):
        batch, length, _ = x.shape
        qkv = self.qkv(x).reshape([batch, length, 3, HEADS, WIDTH // HEADS])
        q, k, v = qkv.transpose([2, 0, 3, 1, 4]).unbind(0)
        scores = (q @ k.transpose([0, 1, 3, 2])) * self.scale
        weights = F.softmax(scores, -1)
        x = weights @ v
        x = x.transpose([0, 2, 1, 3]).reshape([batch, length, WIDTH])
        return self.proj(x)


class Block(nn.Layer):
    def __init__(self, drop_path):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, epsilon=1e-6)
        self.attention = Attention()
        self.gamma1 = self.create_parameter([WIDTH])
        self.norm2 = nn.LayerNorm(WIDTH, epsilon=1e-6)
        self.fc1 = nn.Linear(WIDTH, 2 * WIDTH)
        self.fc2 = nn.Linear(2 * WIDTH, WIDTH)
        self.gamma2 = self.create_parameter([WIDTH])
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        y = self.attention(self.norm1(x))
        x = x + self.drop_path(self.gamma1 * y)
        y = self.fc1(self.norm2(x))
        y = F.gelu(y)
        y = self.fc2(y)
        return x + self.drop_path(self.gamma2 * y)


class ViT(nn.Layer):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2D(3, WIDTH, 8, stride=8)
        self.cls = self.create_parameter([1, 1, WIDTH])
        self.position = self.create_parameter([1, 17, WIDTH])
        self.blocks = nn.LayerList([Block(0.1) for _ in range(3)])
        self.norm = nn.LayerNorm(WIDTH, epsilon=1e-6)
        self.head = nn.Linear(WIDTH, CLASSES)

    def positions(self, side):
        first, grid = self.position[:, :1], self.position[:, 1:]
        grid = grid.reshape([1, 4, 4, WIDTH]).transpose([0, 3, 1, 2])
        grid = F.interpolate(grid, size=[side, side], mode="bicubic", align_corners=False)
        grid = grid.transpose([0, 2, 3, 1]).reshape([1, side * side, WIDTH])
        return paddle.concat([first, grid], 1)

    def forward(self, x):
        x = self.patch(x)
        side = x.shape[-1]
        x = x.flatten(2).transpose([0, 2, 1])
        x = paddle.concat([self.cls.expand([x.shape[0], -1, -1]), x], 1)
        x = x + self.positions(side)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.head(x[:, 0])


def build_model():
    return ViT()


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)


def build_optimizer(model):
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    schedule = paddle.optimizer.lr.LinearWarmup(1e-3, warmup_steps=5, start_lr=2e-4, end_lr=1e-3)
    return paddle.optimizer.AdamW(
        learning_rate=schedule,
        beta1=0.9,
        beta2=0.95,
        epsilon=1e-8,
        parameters=[{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
    )
