import math
import os
from types import SimpleNamespace

import numpy as np
import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute
from paddle.nn import functional as F

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

model_args = SimpleNamespace(hidden_size=32, num_heads=4, num_kv_heads=2, num_layers=2, intermediate_size=48,
                             max_position=64, rope_base=1000.0, dropout=0.1, initializer_range=0.05, rms_eps=1e-5,
                             use_recompute=True)
train_args = SimpleNamespace(seq_len=32, batch_size=10, lr=3e-3, end_lr=3e-4, warmup=10, steps=112, decay=0.1,
                             clip=1.0, z_weight=1e-3)


def text_of(split):
    with open(os.path.join(HOME, "data", split + ".txt")) as f:
        return f.read()


class CharTokenizer:
    def __init__(self, corpus):
        self.chars = "".join(sorted(set(corpus)))

    def encode(self, s):
        return [k for k in map(self.chars.find, s) if k >= 0]

    def decode(self, ids):
        return "".join(self.chars[i] for i in ids)


tokenizer = CharTokenizer(text_of("train"))


class LMDataset(paddle.io.Dataset):
    def __init__(self, split):
        stream = np.array(tokenizer.encode(text_of(split)), dtype="int64")
        n, L = (len(stream) - 1) // train_args.seq_len, train_args.seq_len
        self.x, self.y = stream[:n * L].reshape(n, L), stream[1:n * L + 1].reshape(n, L)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class RMSNorm(nn.Layer):
    def __init__(self, size):
        super().__init__()
        self.weight = self.create_parameter([size], default_initializer=nn.initializer.Constant(1.0))

    def forward(self, x):
        rms = paddle.sqrt(paddle.mean(paddle.square(x), axis=-1, keepdim=True) + model_args.rms_eps)
        return self.weight * (x / rms)


def linear(cin, cout, std=model_args.initializer_range):
    return nn.Linear(cin, cout, weight_attr=nn.initializer.Normal(0.0, std), bias_attr=False)


class RotaryMixin:
    """cos and sin tables with doubled entries; pairs are neighbours (2i, 2i+1)."""

    def make_tables(self, head_dim):
        a = model_args
        inv = 1.0 / a.rope_base ** (np.arange(0, head_dim, 2, dtype="float32") / head_dim)
        ang = np.repeat(np.outer(np.arange(a.max_position, dtype="float32"), inv), 2, axis=-1)[None, :, None]
        self.register_buffer("cos", paddle.to_tensor(np.cos(ang).astype("float32")), persistable=False)
        self.register_buffer("sin", paddle.to_tensor(np.sin(ang).astype("float32")), persistable=False)

    def rotate(self, x):
        n = x.shape[1]
        partner = paddle.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
        return x * self.cos[:, :n] + partner * self.sin[:, :n]


class CausalAttention(nn.Layer, RotaryMixin):
    def __init__(self, out_std):
        super().__init__()
        a = model_args
        self.head_dim = a.hidden_size // a.num_heads
        self.groups = a.num_heads // a.num_kv_heads
        self.make_tables(self.head_dim)
        self.o_proj = linear(a.hidden_size, a.hidden_size, out_std)
        self.q_proj = linear(a.hidden_size, a.hidden_size)
        self.v_proj = linear(a.hidden_size, a.num_kv_heads * self.head_dim)
        self.k_proj = linear(a.hidden_size, a.num_kv_heads * self.head_dim)

    def forward(self, x):
        split = lambda t: t.reshape([t.shape[0], t.shape[1], -1, self.head_dim])  # noqa: E731
        q, k, v = self.rotate(split(self.q_proj(x))), self.rotate(split(self.k_proj(x))), split(self.v_proj(x))
        k, v = (paddle.repeat_interleave(t, self.groups, axis=2) for t in (k, v))
        n = x.shape[1]
        logits = paddle.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.head_dim)
        future = paddle.triu(paddle.full([n, n], -1e9), diagonal=1)
        y = paddle.einsum("bhqk,bkhd->bqhd", F.softmax(logits + future, axis=-1), v)
        return self.o_proj(y.flatten(2))


class GatedMLP(nn.Layer):
    def __init__(self, out_std):
        super().__init__()
        h, m = model_args.hidden_size, model_args.intermediate_size
        self.gate_proj, self.up_proj, self.down_proj = linear(h, m), linear(h, m), linear(m, h, out_std)

    def forward(self, x):
        gate = self.gate_proj(x)
        return self.down_proj(gate * F.sigmoid(gate) * self.up_proj(x))


class DecoderLayer(nn.Layer):
    def __init__(self):
        super().__init__()
        std = model_args.initializer_range / math.sqrt(2 * model_args.num_layers)
        self.self_attn = CausalAttention(std)
        self.mlp = GatedMLP(std)
        self.input_layernorm = RMSNorm(model_args.hidden_size)
        self.post_attention_layernorm = RMSNorm(model_args.hidden_size)
        self.dropout = nn.Dropout(model_args.dropout)

    def forward(self, x):
        for norm, part in ((self.input_layernorm, self.self_attn), (self.post_attention_layernorm, self.mlp)):
            x = x + self.dropout(part(norm(x)))
        return x


class TinyLlama(nn.Layer):
    def __init__(self, vocab):
        super().__init__()
        init = paddle.ParamAttr(initializer=nn.initializer.Normal(std=model_args.initializer_range))
        self.embed_tokens = nn.Embedding(vocab, model_args.hidden_size, weight_attr=init)
        self.norm = RMSNorm(model_args.hidden_size)
        self.layers = nn.LayerList([DecoderLayer() for _ in range(model_args.num_layers)])

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = recompute(layer, x) if self.training and model_args.use_recompute else layer(x)
        return paddle.matmul(self.norm(x), self.embed_tokens.weight, transpose_y=True)  # tied


def build_model():
    return TinyLlama(len(tokenizer.chars))


def build_dataset(split):
    return LMDataset(split)


def build_dataloader(split):
    return paddle.io.DataLoader(LMDataset(split), batch_size=train_args.batch_size, shuffle=(split == "train"))


def loss(outputs, labels):
    log_z = paddle.logsumexp(outputs, axis=-1)
    hit = paddle.take_along_axis(outputs, labels.unsqueeze(-1), axis=-1).squeeze(-1)
    ce, z = (log_z - hit).mean(), (log_z ** 2).mean()
    return {"ce": ce, "z": z, "loss": ce + train_args.z_weight * z}


def metric(outputs, labels):
    nll = float(F.cross_entropy(outputs, labels))
    order = np.argsort(-outputs.numpy(), axis=-1)[..., :3]
    return {"perplexity": math.exp(nll), "bits_per_char": nll / math.log(2),
            "top3": float(np.any(order == labels.numpy()[..., None], -1).mean())}


def build_optimizer(model):
    t = train_args
    cosine = paddle.optimizer.lr.CosineAnnealingDecay(t.lr, T_max=t.steps - t.warmup, eta_min=t.end_lr)
    rate = paddle.optimizer.lr.LinearWarmup(cosine, warmup_steps=t.warmup, start_lr=0.1 * t.lr, end_lr=t.lr)
    decay = [p.name for n, p in model.named_parameters() if "norm" not in n]
    return paddle.optimizer.AdamW(rate, beta1=0.9, beta2=0.95, parameters=model.parameters(), weight_decay=t.decay,
                                  apply_decay_param_fun=lambda x: x in decay, grad_clip=nn.ClipGradByGlobalNorm(t.clip))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def global_norm(model):
    squares = [(p.grad.astype("float32") ** 2).sum() for p in model.parameters() if p.grad is not None]
    return paddle.sqrt(paddle.add_n(squares))


def train_step(model, optimizer, batch):
    model.train()
    parts = loss(model(batch[0]), batch[1])
    parts["loss"].backward()
    norm = global_norm(model).detach()
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": parts["loss"].detach(), "ce": parts["ce"].detach(), "grad_norm": norm}


@paddle.no_grad()
def predict(path, model, max_new=12):
    model.eval()
    with open(path) as f:
        ids = tokenizer.encode(f.read())
    prob = None
    for _ in range(max_new):
        logits = model(paddle.to_tensor([ids[-train_args.seq_len:]], dtype="int64"))[0, -1]
        if prob is None:
            prob = F.softmax(logits, axis=-1).numpy()
        ids.append(int(paddle.argmax(logits)))
    return {"next_prob": prob, "text": tokenizer.decode(ids)}
