"""The port to Paddle of the BERT-like encoder; its attention is in attention.py."""

import paddle
from paddle import nn
from paddle.nn import functional as F

from .attention import WIDTH, SelfAttention

WORDS, PAD = 200, 1


class Embeddings(nn.Layer):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(WORDS, WIDTH)
        self.position = nn.Embedding(40, WIDTH)
        self.kind = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, epsilon=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids, kinds):
        real = (ids != PAD).astype("int64")
        positions = paddle.cumsum(real, 1) * real + PAD
        x = self.word(ids)
        x = paddle.where(real.unsqueeze(2) > 0, x, x.detach())  # as padding_idx does in PyTorch; Paddle's gives zeros
        x = x + self.position(positions)
        x = x + self.kind(kinds)
        x = self.norm(x)
        return self.dropout(x)


class Layer(nn.Layer):
    def __init__(self):
        super().__init__()
        self.attention = SelfAttention()
        self.norm1 = nn.LayerNorm(WIDTH, epsilon=1e-12)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, epsilon=1e-12)

    def forward(self, x, bias):
        x = self.norm1(x + self.attention(x, bias))
        y = F.gelu(self.up(x), approximate=True)
        y = self.down(y)
        return self.norm2(x + y)


class Bert(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embeddings = Embeddings()
        self.layers = nn.LayerList([Layer() for _ in range(2)])
        self.transform = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, epsilon=1e-12)
        self.bias = self.create_parameter([WORDS], is_bias=True)
        self.pooler = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids, kinds, mask):
        bias = (1.0 - mask.unsqueeze([1, 2])) * -1e4
        x = self.embeddings(ids, kinds)
        for layer in self.layers:
            x = layer(x, bias)
        y = self.norm(F.gelu(self.transform(x)))
        logits = paddle.matmul(y, self.embeddings.word.weight, transpose_y=True) + self.bias
        pooled = paddle.tanh(self.pooler(x[:, 0]))
        return {"logits": logits, "pooled": pooled}


def build_model():
    return Bert()


def loss(outputs, labels):
    logits = outputs["logits"].reshape([-1, WORDS])
    wanted = labels.reshape([-1])
    guessed = F.cross_entropy(logits, wanted, ignore_index=-100, reduction="sum")
    guessed = guessed / (wanted != -100).sum()
    return guessed + 0.1 * outputs["pooled"].square().mean()


def build_optimizer(model):
    schedule = paddle.optimizer.lr.LambdaDecay(1e-3, lambda step: min(1.0, (step + 1) / 4))
    return paddle.optimizer.Adam(
        learning_rate=schedule,
        beta1=0.9,
        beta2=0.98,
        epsilon=1e-6,
        parameters=model.parameters(),
        weight_decay=paddle.regularizer.L2Decay(0.01),
    )
