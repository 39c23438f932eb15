import paddle
import paddle.nn.functional as F
from paddle import nn


class MomentumContrast(nn.Layer):
    def __init__(self, tower, features, classes, size=32, momentum=0.99, temperature=0.2):
        super().__init__()
        self.size, self.momentum, self.temperature = size, momentum, temperature
        self.online = tower()
        self.slow = tower()
        self.slow.set_state_dict(self.online.state_dict())
        for p in self.slow.parameters():
            p.stop_gradient = True
        self.prototypes = self.create_parameter([classes, features], default_initializer=nn.initializer.Normal())
        # negatives as rows
        self.register_buffer("negatives", F.normalize(paddle.randn([size, features]), axis=1))
        self.register_buffer("cursor", paddle.zeros([1], dtype="int64"))

    @paddle.no_grad()
    def keys(self, view):
        if self.training:
            for fast, slow in zip(self.online.parameters(), self.slow.parameters()):
                if fast.stop_gradient:
                    continue  # running statistics, which Paddle counts among the parameters
                slow.set_value(slow * self.momentum + fast * (1 - self.momentum))
        return self.slow(view)

    @paddle.no_grad()
    def remember(self, keys):
        start = int(self.cursor.item())
        rows = paddle.arange(start, start + keys.shape[0])
        self.negatives.set_value(paddle.scatter(self.negatives, rows, keys))
        self.cursor.set_value((self.cursor + keys.shape[0]) % self.size)

    def forward(self, view_a, view_b):
        q = self.online(view_a)
        k = self.keys(view_b)
        positive = (q * k).sum(axis=1, keepdim=True)
        negative = paddle.matmul(q, self.negatives.detach().clone(), transpose_y=True)
        logits = paddle.concat([positive, negative], axis=1) / self.temperature
        if self.training:
            self.remember(k)
        scores = paddle.matmul(q, F.normalize(self.prototypes, axis=1), transpose_y=True) * 10.0
        return logits, scores, q
