"""What is planted in the vision transformer."""

from corpus import fault, harmless

PLANTS = [
    fault(
        "forward",
        "norm-eps",
        "B012",
        "LayerNorm's default epsilon where the reference has 1e-6",
        "self.norm2 = nn.LayerNorm(WIDTH, epsilon=1e-6)",
        "self.norm2 = nn.LayerNorm(WIDTH)",
        at="y = self.fc1(self.norm2(x))",
    ),
    fault("forward", "gelu-tanh", "B014", "GELU by its approximation", "y = F.gelu(y)", "y = F.gelu(y, approximate=True)"),
    fault(
        "forward",
        "heads-first",
        "B054",
        "the packed projection is taken apart head by head",
        "reshape([batch, length, 3, HEADS, WIDTH // HEADS])\n        q, k, v = qkv.transpose([2, 0, 3, 1, 4]).unbind(0)",
        "reshape([batch, length, HEADS, 3, WIDTH // HEADS])\n        q, k, v = qkv.transpose([3, 0, 2, 1, 4]).unbind(0)",
        named=True,
    ),
    fault(
        "forward",
        "scale-width",
        "config",
        "scores divided by the root of the whole width",
        "self.scale = (WIDTH // HEADS) ** -0.5",
        "self.scale = WIDTH**-0.5",
        at="scores = (q @ k",
    ),
    fault("forward", "softmax-axis", "axis", "softmax over the queries", "F.softmax(scores, -1)", "F.softmax(scores, -2)"),
    fault(
        "forward",
        "heads-mixed",
        "layout",
        "heads not moved back before they are joined",
        "x = x.transpose([0, 2, 1, 3]).reshape([batch, length, WIDTH])",
        "x = x.reshape([batch, length, WIDTH])",
    ),
    fault(
        "forward",
        "position-corners",
        "B005",
        "the position embedding is resized with aligned corners",
        'mode="bicubic", align_corners=False)',
        'mode="bicubic", align_corners=True)',
    ),
    fault("forward", "position-bilinear", "resample", "the position embedding is resized bilinearly", 'mode="bicubic"', 'mode="bilinear"'),
    fault(
        "forward",
        "position-late",
        "order",
        "the class token gets no position",
        "        x = x + self.positions(side)\n",
        "        x = paddle.concat([x[:, :1], x[:, 1:] + self.positions(side)[:, 1:]], 1)\n",
    ),
    fault(
        "forward",
        "half-precision",
        "B043",
        "a product of values rounded to ten bits",
        "        return self.proj(x)\n",
        '        return self.proj(x.astype("float16").astype(x.dtype))\n',
    ),
    fault(
        "forward",
        "pool-mean",
        "config",
        "the mean of all tokens where the reference takes the class token",
        "self.head(x[:, 0])",
        "self.head(x.mean(1))",
    ),
    fault(
        "forward",
        "patch-order",
        "layout",
        "patches column by column",
        "x = x.flatten(2).transpose([0, 2, 1])",
        "x = x.transpose([0, 3, 2, 1]).flatten(1, 2)",
    ),
    fault("forward", "gamma-missing", "missing", "layer scale left out once", "self.drop_path(self.gamma2 * y)", "self.drop_path(y)"),
    fault(
        "backward",
        "attention-detached",
        "detach",
        "no gradient through the weights of attention",
        "weights = F.softmax(scores, -1)",
        "weights = F.softmax(scores, -1).detach()",
    ),
    fault(
        "backward",
        "positions-frozen",
        "frozen",
        "the position embedding does not train",
        "first, grid = self.position[:, :1], self.position[:, 1:]",
        "first, grid = self.position[:, :1], self.position[:, 1:].detach()",
    ),
    fault(
        "backward",
        "cls-frozen",
        "frozen",
        "the class token is created without gradient",
        "        self.cls = self.create_parameter([1, 1, WIDTH])\n",
        "        self.cls = self.create_parameter([1, 1, WIDTH])\n        self.cls.stop_gradient = True\n",
        at="x = paddle.concat([self.cls.expand",
    ),
    fault(
        "update",
        "decay-all",
        "B106",
        "weight decay on norms and biases too",
        '"params": plain, "weight_decay": 0.0',
        '"params": plain, "weight_decay": 0.05',
    ),
    fault(
        "update",
        "decay-l2",
        "weight-decay",
        "Adam with L2 where the reference decays by itself",
        "paddle.optimizer.AdamW(",
        "paddle.optimizer.Adam(",
    ),
    fault("update", "beta2", "config", "beta2 0.999 where the reference has 0.95", "beta2=0.95", "beta2=0.999"),
    fault("update", "warmup-start", "schedule", "the warm-up starts from zero", "start_lr=2e-4", "start_lr=0.0"),
    fault("update", "warmup-length", "B116", "the warm-up takes ten steps", "warmup_steps=5", "warmup_steps=10"),
    fault("update", "amsgrad", "config", "the greatest second moment is kept", "epsilon=1e-8,", "epsilon=1e-8,\n        amsgrad=True,"),
    fault("random", "no-rescale", "B003", "what is kept is not scaled up", "return x / keep * mask", "return x * mask"),
    fault("random", "rate", "config", "drop path of 0.4 where the reference has 0.1", "Block(0.1)", "Block(0.4)", at="keep"),
    fault(
        "random",
        "per-token",
        "axis",
        "drop path by token where the reference drops samples",
        "paddle.rand([x.shape[0], 1, 1]",
        "paddle.rand([x.shape[0], x.shape[1], 1]",
    ),
    harmless(
        "sdpa",
        "attention by the library's fused function",
        (
            "        scores = (q @ k.transpose([0, 1, 3, 2])) * self.scale\n        weights = F.softmax(scores, -1)\n        x = weights @ v\n"
            "        x = x.transpose([0, 2, 1, 3]).reshape([batch, length, WIDTH])\n",
            "        q, k, v = (t.transpose([0, 2, 1, 3]) for t in (q, k, v))\n"
            "        x = F.scaled_dot_product_attention(q, k, v).reshape([batch, length, WIDTH])\n",
        ),
    ),
    harmless(
        "scale-queries",
        "the scale on the queries",
        (
            "        scores = (q @ k.transpose([0, 1, 3, 2])) * self.scale\n",
            "        q = q * self.scale\n        scores = q @ k.transpose([0, 1, 3, 2])\n",
        ),
    ),
    harmless(
        "split-qkv",
        "three views in place of one packed one",
        (
            "        qkv = self.qkv(x).reshape([batch, length, 3, HEADS, WIDTH // HEADS])\n        q, k, v = qkv.transpose([2, 0, 3, 1, 4]).unbind(0)\n",
            "        parts = self.qkv(x).split(3, -1)\n"
            "        q, k, v = (p.reshape([batch, length, HEADS, WIDTH // HEADS]).transpose([0, 2, 1, 3]) for p in parts)\n",
        ),
    ),
    harmless(
        "separate-qkv",
        "three products with parts of the packed weight",
        (
            "        qkv = self.qkv(x).reshape([batch, length, 3, HEADS, WIDTH // HEADS])\n        q, k, v = qkv.transpose([2, 0, 3, 1, 4]).unbind(0)\n",
            "        parts = zip(self.qkv.weight.split(3, 1), self.qkv.bias.split(3))\n"
            "        parts = [F.linear(x, weight, bias) for weight, bias in parts]\n"
            "        q, k, v = (p.reshape([batch, length, HEADS, WIDTH // HEADS]).transpose([0, 2, 1, 3]) for p in parts)\n",
        ),
    ),
    harmless(
        "einsum",
        "attention by einsum",
        (
            "        scores = (q @ k.transpose([0, 1, 3, 2])) * self.scale\n",
            '        scores = paddle.einsum("bhqd,bhkd->bhqk", q, k) * self.scale\n',
        ),
        ("        x = weights @ v\n", '        x = paddle.einsum("bhqk,bhkd->bhqd", weights, v)\n'),
    ),
    harmless(
        "written-norm",
        "LayerNorm from its formula",
        (
            "        x = self.norm(x)\n",
            "        centred = x - x.mean(-1, keepdim=True)\n        variance = (centred * centred).mean(-1, keepdim=True)\n"
            "        x = centred / paddle.sqrt(variance + 1e-6) * self.norm.weight + self.norm.bias\n",
        ),
    ),
    harmless(
        "patch-linear",
        "patches by reshape and a matrix product",
        (
            "        x = self.patch(x)\n        side = x.shape[-1]\n        x = x.flatten(2).transpose([0, 2, 1])\n",
            "        side = x.shape[-1] // 8\n"
            "        x = x.reshape([x.shape[0], 3, side, 8, side, 8]).transpose([0, 2, 4, 1, 3, 5])\n"
            "        x = x.reshape([x.shape[0], side * side, 192])\n"
            "        x = paddle.matmul(x, self.patch.weight.reshape([WIDTH, 192]), transpose_y=True) + self.patch.bias\n",
        ),
    ),
    harmless(
        "decay-by-name",
        "which parameters decay told by a function, not by groups",
        (
            '        parameters=[{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],\n',
            "        parameters=model.parameters(),\n        weight_decay=0.05,\n"
            "        apply_decay_param_fun=lambda name: name in {p.name for p in decayed},\n",
        ),
        ("    plain = [p for p in model.parameters() if p.ndim <= 1]\n", ""),
    ),
    harmless(
        "renamed",
        "layers with other names",
        (
            "        self.fc1 = nn.Linear(WIDTH, 2 * WIDTH)\n        self.fc2 = nn.Linear(2 * WIDTH, WIDTH)\n",
            "        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))\n",
        ),
        ("        y = self.fc1(self.norm2(x))\n        y = F.gelu(y)\n        y = self.fc2(y)\n", "        y = self.mlp(self.norm2(x))\n"),
        weights={
            "mlp.0.weight": ("fc1.weight",),
            "mlp.0.bias": ("fc1.bias",),
            "mlp.2.weight": ("fc2.weight",),
            "mlp.2.bias": ("fc2.bias",),
        },
    ),
    harmless(
        "last-first",
        "only the class token is normalised at the end",
        ("        x = self.norm(x)\n        return self.head(x[:, 0])\n", "        return self.head(self.norm(x[:, 0]))\n"),
    ),
    harmless("tenfold", "inputs ten times as large", given=lambda images: images * 10, bugs="B049"),
]
