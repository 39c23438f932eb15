import paddle
from paddle import nn
from paddle.nn.initializer import XavierUniform

from .nets import Embedder, unit


class MomentumContrast(nn.Layer):
    def __init__(self, size=16, memory=40, classes=6, keep=0.95, temperature=0.2):
        super().__init__()
        self.keep, self.temperature = keep, temperature
        self.student = Embedder(size)
        self.teacher = Embedder(size)
        for mine, its in zip(self.teacher.parameters(), self.student.parameters()):
            mine.set_value(its)
            mine.stop_gradient = True
        self.prototypes = self.create_parameter([size, classes], default_initializer=XavierUniform())
        self.register_buffer("memory", unit(paddle.randn([size, memory]), axis=0))
        self.register_buffer("position", paddle.zeros([1], dtype="int64"))

    @paddle.no_grad()
    def follow(self):
        """The teacher follows the student slowly."""
        for mine, its in zip(self.teacher.parameters(), self.student.parameters()):
            mine.set_value(self.keep * mine + (1.0 - self.keep) * its)

    @paddle.no_grad()
    def remember(self, keys):
        size, count = self.memory.shape[1], keys.shape[0]
        begin = int(self.position.item())
        places = [(begin + i) % size for i in range(count)]
        rows = paddle.scatter(self.memory.t(), paddle.to_tensor(places), keys.detach())
        self.memory.set_value(rows.t())
        self.position.fill_((begin + count) % size)

    def forward(self, first, second):
        query = self.student(first)
        with paddle.no_grad():
            key = self.teacher(second)
        same = paddle.sum(query * key, axis=1, keepdim=True)
        other = paddle.matmul(query, self.memory.detach())
        return {
            "logits": paddle.concat([same, other], axis=1) / self.temperature,
            "cosine": paddle.matmul(query, unit(self.prototypes, axis=0)),
            "q": query,
            "k": key,
        }
