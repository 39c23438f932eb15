"""What is planted in the Informer-like encoder."""

from corpus import fault, harmless

PLANTS = [
    fault(
        "forward",
        "zero-padding",
        "padding",
        "zeros at the ends where the reference goes round",
        ', padding_mode="circular"',
        "",
        at="value = self.conv(",
    ),
    fault(
        "forward",
        "position-order",
        "layout",
        "sines first, then cosines",
        "return waves.reshape([length, WIDTH])",
        "return waves.transpose([0, 2, 1]).reshape([length, WIDTH])",
    ),
    fault("forward", "position-base", "B023", "base 1000 where the reference has 10000", "np.log(10000.0)", "np.log(1000.0)"),
    fault("forward", "std-biased", "semantics", "the biased deviation", "x.std(1, keepdim=True)", "x.std(1, unbiased=False, keepdim=True)"),
    fault("forward", "std-eps", "epsilon", "epsilon 1e-3 where the reference has 1e-5", "+ 1e-5", "+ 1e-3"),
    fault(
        "forward",
        "activity-mean",
        "semantics",
        "the mean of what was measured, not of all keys",
        "measured.sum(-1) / length",
        "measured.mean(-1)",
    ),
    fault(
        "forward",
        "few-queries",
        "config",
        "a third of the queries are active",
        "3 * int(np.ceil(np.log(length)))",
        "int(np.ceil(np.log(length)))",
        at="length, count",
    ),
    fault(
        "forward",
        "least-active",
        "sign",
        "the least active queries",
        "paddle.topk(activity, count, sorted=True)",
        "paddle.topk(activity, count, largest=False, sorted=True)",
    ),
    fault(
        "forward", "context-sum", "config", "the sum where the reference has the mean", "v.mean(2, keepdim=True)", "v.sum(2, keepdim=True)"
    ),
    fault(
        "forward",
        "scatter-add",
        "semantics",
        "active queries added to the mean",
        "index, weights @ v, 2)",
        'index, weights @ v, 2, reduce="add")',
    ),
    fault(
        "forward",
        "distil-pad",
        "padding",
        "pooling without padding, one step padded at the end",
        "x = F.max_pool1d(x, 3, stride=2, padding=1)",
        'x = F.max_pool1d(F.pad(x, [0, 1], value=-1e9, data_format="NCL"), 3, stride=2)',
    ),
    fault(
        "forward", "relu-distil", "activation", "ReLU where the reference has ELU", "x = F.elu(self.norm(x))", "x = F.relu(self.norm(x))"
    ),
    fault("forward", "elu-alpha", "default-arg", "ELU of another height", "x = F.elu(self.norm(x))", "x = F.elu(self.norm(x), 0.9)"),
    fault("forward", "mean-added-last", "off-by-one", "the wrong channel's mean added", "mean[:, :, 0]", "mean[:, :, 1]"),
    fault(
        "forward",
        "norm-eps",
        "B012",
        "LayerNorm epsilon 1e-6 where the reference has the default",
        "self.norm2 = nn.LayerNorm(WIDTH)",
        "self.norm2 = nn.LayerNorm(WIDTH, epsilon=1e-6)",
        at="return self.norm2(x + y)",
    ),
    fault(
        "backward",
        "deviation-detached",
        "detach",
        "values scattered without gradient",
        "paddle.put_along_axis(context, index, weights @ v, 2)",
        "paddle.put_along_axis(context, index, (weights @ v).detach(), 2)",
    ),
    fault(
        "backward",
        "huber-delta",
        "config",
        "the step of the loss at one",
        "paddle.where(error.abs() < 0.5, near, 0.5 * (error.abs() - 0.25)).mean()",
        "paddle.where(error.abs() < 1.0, near, error.abs() - 0.5).mean()",
    ),
    fault(
        "backward",
        "bn-momentum",
        "B140",
        "momentum 0.99 where PyTorch's default means 0.9",
        "nn.BatchNorm1D(WIDTH)",
        "nn.BatchNorm1D(WIDTH, momentum=0.99)",
        at="x = F.elu(self.norm(x))",
    ),
    fault(
        "backward",
        "no-grad-embedding",
        "detach",
        "the embedding computed without gradient",
        "        y = self.embedding((x - mean) / deviation)\n",
        "        with paddle.no_grad():\n            y = self.embedding((x - mean) / deviation)\n",
    ),
    fault(
        "update",
        "one-eps",
        "B102",
        "epsilon left out of the variance",
        "(1 - self.beta2) * surprise**2 + self.epsilon**2",
        "(1 - self.beta2) * surprise**2",
    ),
    fault(
        "update",
        "decay-late",
        "B109",
        "decayed after the update, not before",
        "        value = parameter * (1 - self.get_lr() * self.decay)\n        value = value - self.get_lr() * mean / (spread.sqrt() + self.epsilon)\n",
        "        value = parameter - self.get_lr() * mean / (spread.sqrt() + self.epsilon)\n        value = value * (1 - self.get_lr() * self.decay)\n",
    ),
    fault(
        "update",
        "epsilon-hat",
        "B101",
        "the correction of bias scales epsilon too",
        "        spread = spread / (1 - self.beta2**self.count)\n        value = parameter * (1 - self.get_lr() * self.decay)\n        value = value - self.get_lr() * mean / (spread.sqrt() + self.epsilon)\n",
        "        value = parameter * (1 - self.get_lr() * self.decay)\n"
        "        value = value - self.get_lr() * (1 - self.beta2**self.count) ** 0.5 * mean / (spread.sqrt() + self.epsilon)\n",
    ),
    fault(
        "update",
        "no-decay",
        "B106",
        "no weight decay",
        "value = parameter * (1 - self.get_lr() * self.decay)",
        "value = parameter",
        at="value = value - self.get_lr()",
    ),
    fault(
        "update",
        "variance-of-gradient",
        "semantics",
        "the square of the gradient, as Adam has it",
        "surprise = gradient - mean",
        "surprise = gradient",
    ),
    fault(
        "update",
        "one-cycle-start",
        "schedule",
        "the cycle starts at a tenth of the greatest rate",
        "divide_factor=25.0",
        "divide_factor=10.0",
    ),
    harmless(
        "linear-conv",
        "a convolution of width one as a matrix product",
        (
            "        y = F.gelu(self.conv1(x.transpose([0, 2, 1])))\n        y = self.conv2(y).transpose([0, 2, 1])\n",
            "        y = F.gelu(F.linear(x, self.conv1.weight.squeeze(2).T, self.conv1.bias))\n        y = F.linear(y, self.conv2.weight.squeeze(2).T, self.conv2.bias)\n",
        ),
    ),
    harmless(
        "roll-conv",
        "the circular convolution by rolling",
        (
            "        value = self.conv(x.transpose([0, 2, 1])).transpose([0, 2, 1])\n",
            "        near = [paddle.roll(x, 1, 1), x, paddle.roll(x, -1, 1)]\n"
            "        value = sum(paddle.matmul(part, self.conv.weight[:, :, i], transpose_y=True) for i, part in enumerate(near))\n",
        ),
    ),
    harmless(
        "conv2d",
        "a convolution over one axis as one over two",
        (
            "x = self.conv(x.transpose([0, 2, 1]))\n        x = F.elu",
            "x = F.conv2d(x.transpose([0, 2, 1]).unsqueeze(2), self.conv.weight.unsqueeze(2), self.conv.bias, padding=[0, 1]).squeeze(2)\n        x = F.elu",
        ),
    ),
    harmless(
        "unsorted",
        "the active queries in another order",
        (
            "        top = paddle.topk(activity, count, sorted=True)[1]\n",
            "        top = paddle.topk(activity, count, sorted=True)[1].flip(-1)\n",
        ),
    ),
    harmless(
        "written-std",
        "the deviation from its formula",
        (
            "deviation = x.std(1, keepdim=True) + 1e-5",
            "deviation = ((x - mean).square().sum(1, keepdim=True) / (x.shape[1] - 1)).sqrt() + 1e-5",
        ),
    ),
    harmless(
        "mask-context",
        "active queries chosen by a mask",
        (
            "        context = paddle.put_along_axis(context, index, weights @ v, 2)\n",
            "        chosen = F.one_hot(top, length).astype(x.dtype)\n        kept = (1 - chosen.sum(2)).unsqueeze(-1)\n"
            "        context = context * kept + paddle.matmul(chosen, weights @ v, transpose_x=True)\n",
        ),
    ),
    harmless(
        "elu-where",
        "ELU from its formula",
        (
            "        x = F.elu(self.norm(x))\n",
            "        x = self.norm(x)\n        x = paddle.where(x > 0, x, paddle.expm1(paddle.minimum(x, paddle.zeros_like(x))))\n",
        ),
    ),
]
