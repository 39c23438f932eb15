"""The port to Paddle of the window transformer."""

import paddle
from paddle import nn
from paddle.nn import functional as F

WIDTH, HEADS, WINDOW, CLASSES = 32, 4, 4, 5


class Windows(nn.Layer):
    """Cuts a map into windows and puts them together again."""

    def cut(self, x):
        batch, height, width, channels = x.shape
        x = x.reshape([batch, height // WINDOW, WINDOW, width // WINDOW, WINDOW, channels])
        x = x.transpose([0, 1, 3, 2, 4, 5])
        return x.reshape([-1, WINDOW * WINDOW, channels])

    def join(self, x, side):
        x = x.reshape([-1, side // WINDOW, side // WINDOW, WINDOW, WINDOW, x.shape[-1]])
        x = x.transpose([0, 1, 3, 2, 4, 5])
        return x.reshape([-1, side, side, x.shape[-1]])


class RelativeBias(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = self.create_parameter([(2 * WINDOW - 1) ** 2, HEADS])

    def places(self):
        rows = paddle.arange(WINDOW).unsqueeze(1).expand([WINDOW, WINDOW]).flatten()
        columns = paddle.arange(WINDOW).unsqueeze(0).expand([WINDOW, WINDOW]).flatten()
        down = rows.unsqueeze(1) - rows.unsqueeze(0) + WINDOW - 1
        along = columns.unsqueeze(1) - columns.unsqueeze(0) + WINDOW - 1
        return down * (2 * WINDOW - 1) + along

    def forward(self):
        found = paddle.index_select(self.table, self.places().flatten(), axis=0)
        return found.reshape([WINDOW**2, WINDOW**2, HEADS]).transpose([2, 0, 1])


class WindowAttention(nn.Layer):
    def __init__(self, width, side, shift):
        super().__init__()
        self.shift, self.side, self.scale = shift, side, (width // HEADS) ** -0.5
        self.windows = Windows()
        self.bias = RelativeBias()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def masks(self):
        line = [0] * (self.side - WINDOW) + [1] * (WINDOW - self.shift) + [2] * self.shift
        line = paddle.to_tensor(line, dtype="float32")
        regions = (3 * line.unsqueeze(1) + line.unsqueeze(0)).reshape([1, self.side, self.side, 1])
        regions = self.windows.cut(regions).squeeze(-1)
        same = regions.unsqueeze(1) == regions.unsqueeze(2)
        return paddle.where(same, paddle.zeros([1]), paddle.full([1], -100.0))

    def attend(self, x):
        count, length, width = x.shape
        qkv = self.qkv(x).reshape([count, length, 3, HEADS, width // HEADS])
        qkv = qkv.transpose([2, 0, 3, 1, 4])
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = paddle.matmul(q * self.scale, k, transpose_y=True)
        scores = scores + self.bias().unsqueeze(0)
        if self.shift:
            masks = self.masks().astype(scores.dtype)
            masks = masks.tile([count // masks.shape[0], 1, 1])
            scores = scores + masks.unsqueeze(1)
        x = paddle.matmul(F.softmax(scores, axis=-1), v)
        return self.proj(x.transpose([0, 2, 1, 3]).reshape([count, length, width]))

    def forward(self, x):
        y = self.norm(x)
        if self.shift:
            y = paddle.roll(y, shifts=(-self.shift, -self.shift), axis=(1, 2))
        y = self.windows.join(self.attend(self.windows.cut(y)), self.side)
        if self.shift:
            y = paddle.roll(y, shifts=(self.shift, self.shift), axis=(1, 2))
        return x + y


class Excitation(nn.Layer):
    def __init__(self, width, inner):
        super().__init__()
        self.squeeze = nn.Conv2D(width, inner, 1)
        self.excite = nn.Conv2D(inner, width, 1)
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.gate = nn.Hardsigmoid()

    def forward(self, x):
        y = F.relu(self.squeeze(self.pool(x)))
        return x * self.gate(self.excite(y))


class Mixer(nn.Layer):
    """Grouped convolutions with channels shuffled between them, excited by what was squeezed."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(4, width, epsilon=1e-4)
        self.expand = nn.Conv2D(width, 2 * width, 1, groups=2)
        self.depth = nn.Conv2D(2 * width, 2 * width, 3, padding=2, dilation=2, groups=2 * width)
        self.excitation = Excitation(2 * width, width // 4)
        self.shrink = nn.Conv2D(2 * width, width, 1, groups=2)

    def forward(self, x):
        y = self.norm(x)
        y = self.expand(y)
        y = F.channel_shuffle(y, 2)
        y = F.silu(self.depth(y))
        y = self.excitation(y)
        return self.shrink(y) + x


class Merge(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.reduce = nn.Linear(4 * width, 2 * width, bias_attr=False)

    def forward(self, x):
        corners = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        x = paddle.concat(corners, axis=-1)
        return self.reduce(self.norm(x))


class Swin(nn.Layer):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2 * WIDTH, CLASSES)
        self.merge = Merge(WIDTH)
        self.mixer = Mixer(WIDTH)
        self.stage1 = nn.Sequential(WindowAttention(WIDTH, 16, 0), WindowAttention(WIDTH, 16, 2))
        self.stage2 = nn.Sequential(WindowAttention(2 * WIDTH, 8, 2))
        self.patch = nn.Conv2D(3, WIDTH, 4, stride=4)

    def forward(self, x):
        x = self.patch(x)
        x = self.stage1(x.transpose([0, 2, 3, 1]))
        x = self.mixer(x.transpose([0, 3, 1, 2])).transpose([0, 2, 3, 1])
        x = self.stage2(self.merge(x))
        x = x.flatten(1, 2)
        best, _ = paddle.topk(x, 9, axis=1)
        return self.head(best.mean(axis=1))


def build_model():
    return Swin()


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)
