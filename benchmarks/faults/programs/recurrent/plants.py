"""What is planted in the forecaster."""

from corpus import fault, harmless

#: names of the port -> names of the reference
NAMES = {
    "gru.cell_fw.weight_ih": "gru.weight_ih_l0",
    "gru.cell_fw.weight_hh": "gru.weight_hh_l0",
    "gru.cell_fw.bias_ih": "gru.bias_ih_l0",
    "gru.cell_fw.bias_hh": "gru.bias_hh_l0",
    "gru.cell_bw.weight_ih": "gru.weight_ih_l0_reverse",
    "gru.cell_bw.weight_hh": "gru.weight_hh_l0_reverse",
    "gru.cell_bw.bias_ih": "gru.bias_ih_l0_reverse",
    "gru.cell_bw.bias_hh": "gru.bias_hh_l0_reverse",
}

PLANTS = [
    fault(
        "forward",
        "gate-order",
        "B057",
        "the gates in the order of another framework",
        "i, f, g, o = gates.chunk(4, -1)",
        "i, g, f, o = gates.chunk(4, -1)",
        named=True,
    ),
    fault("forward", "forget-bias", "default-arg", "one added to the forget gate", "c = F.sigmoid(f) * c", "c = F.sigmoid(f + 1.0) * c"),
    fault(
        "forward",
        "no-output-tanh",
        "missing",
        "the cell's value is not squashed",
        "h = F.sigmoid(o) * paddle.tanh(c)",
        "h = F.sigmoid(o) * c",
    ),
    fault(
        "forward",
        "reset-before",
        "B058",
        "the reset gate acts before the product, by a cell written so",
        "        states, last = self.gru(x, (start, start))\n",
        "        states, last = self.gru(x, (start, start))\n        cell = self.gru.cell_fw\n        h, own = paddle.zeros([x.shape[0], WIDTH], x.dtype), []\n"
        "        for t in range(x.shape[1]):\n"
        "            a = F.linear(x[:, t], cell.weight_ih.T, cell.bias_ih)\n            b = F.linear(h, cell.weight_hh.T, cell.bias_hh)\n"
        "            r, z = F.sigmoid((a + b)[:, :WIDTH]), F.sigmoid((a + b)[:, WIDTH : 2 * WIDTH])\n"
        "            n = paddle.tanh(a[:, 2 * WIDTH :] + F.linear(r * h, cell.weight_hh[2 * WIDTH :].T, cell.bias_hh[2 * WIDTH :]))\n"
        "            h = (1 - z) * n + z * h\n            own.append(h)\n"
        "        states = paddle.concat([paddle.stack(own, 1), states[:, :, WIDTH:]], -1)\n",
    ),
    fault(
        "forward", "direction-order", "order", "the last states of both directions exchanged", "[last[0], last[1]]", "[last[1], last[0]]"
    ),
    fault(
        "forward",
        "time-major",
        "B143",
        "states regrouped as if time came first",
        "        states, last = self.gru(x, (start, start))\n",
        "        states, last = self.gru(x, (start, start))\n        states = states.reshape([x.shape[1], x.shape[0], -1]).transpose([1, 0, 2])\n",
    ),
    fault(
        "forward",
        "last-state",
        "off-by-one",
        "the states at the end where the reference takes each direction's last",
        "        h = paddle.tanh(self.bridge(paddle.concat([last[0], last[1]], -1)))\n",
        "        h = paddle.tanh(self.bridge(states[:, -1]))\n",
    ),
    fault("forward", "lengths", "off-by-one", "one step too many is attended to", "< lengths.unsqueeze(1)", "<= lengths.unsqueeze(1)"),
    fault(
        "forward", "first-value", "off-by-one", "the forecast starts from the last but one value", "y = x[:, -1, :1]", "y = x[:, -2, :1]"
    ),
    fault("forward", "wrong-channel", "channel", "the forecast starts from the second channel", "y = x[:, -1, :1]", "y = x[:, -1, 1:]"),
    fault("forward", "no-residual", "missing", "each step forgets the one before", "y = y + self.head(h)", "y = self.head(h)"),
    fault(
        "forward", "scale", "config", "scores divided by the root of the wrong width", "scores / WIDTH**0.5", "scores / (2 * WIDTH) ** 0.5"
    ),
    fault(
        "backward",
        "truncated",
        "detach",
        "no gradient through the steps before",
        "            steps.append(y)\n",
        "            steps.append(y)\n            h = h.detach()\n",
    ),
    fault(
        "backward",
        "feedback-detached",
        "detach",
        "no gradient through what is fed back",
        "paddle.concat([y, context], -1)",
        "paddle.concat([y.detach(), context], -1)",
    ),
    fault(
        "backward",
        "quantile",
        "config",
        "the other quantile",
        "paddle.maximum(0.7 * error, -0.3 * error)",
        "paddle.maximum(0.3 * error, -0.7 * error)",
    ),
    fault(
        "backward",
        "weights-sum",
        "normalization",
        "divided by the weights",
        "(weights * pinball).mean()",
        "(weights * pinball).mean() / weights.mean()",
    ),
    fault(
        "update",
        "eps-place",
        "B158",
        "epsilon beside the maximum, as Paddle's own has it",
        "gradient.abs() + self.epsilon)",
        "gradient.abs()) + self.epsilon",
    ),
    fault(
        "update",
        "no-correction",
        "B101",
        "no correction of the first moment",
        "rate = self.get_lr() / (1 - self.beta1**self.count)",
        "rate = self.get_lr()",
        at="parameter.set_value(parameter - rate",
    ),
    fault(
        "update",
        "paddle-adamax",
        "B158",
        "Paddle's own Adamax",
        "    return Adamax(schedule, model.parameters(), beta1=0.9, beta2=0.99, epsilon=1e-4)",
        "    return paddle.optimizer.Adamax(schedule, parameters=model.parameters(), beta1=0.9, beta2=0.99, epsilon=1e-4)",
    ),
    fault("update", "milestones", "schedule", "the second milestone is missing", "milestones=[1, 2]", "milestones=[1, 20]"),
    fault("update", "beta2", "config", "beta2 0.999 where the reference has 0.99", "beta2=0.99,", "beta2=0.999,"),
    harmless(
        "matmul-attention",
        "products in place of einsum",
        (
            'scores = paddle.einsum("bw,btw->bt", self.query(h), states)',
            "scores = paddle.matmul(states, self.query(h).unsqueeze(2)).squeeze(2)",
        ),
        ('context = paddle.einsum("bt,btw->bw", weights, states)', "context = (weights.unsqueeze(2) * states).sum(1)"),
    ),
    harmless(
        "library-cell",
        "the library's cell in place of the one written by hand",
        (
            "        gates = self.input(x) + self.hidden(h)\n        i, f, g, o = gates.chunk(4, -1)\n        c = F.sigmoid(f) * c + F.sigmoid(i) * paddle.tanh(g)\n"
            "        h = F.sigmoid(o) * paddle.tanh(c)\n        return h, c\n",
            "        h, (_, c) = self.cell(x, (h, c))\n        return h, c\n",
        ),
        (
            "        self.input = nn.Linear(inner, 4 * outer)\n        self.hidden = nn.Linear(outer, 4 * outer)\n",
            "        self.cell = nn.LSTMCell(inner, outer)\n",
        ),
        weights={
            "cell.cell.weight_ih": ("cell.input.weight:T",),
            "cell.cell.weight_hh": ("cell.hidden.weight:T",),
            "cell.cell.bias_ih": ("cell.input.bias",),
            "cell.cell.bias_hh": ("cell.hidden.bias",),
        },
    ),
    harmless(
        "joined-cell",
        "one product in place of two",
        (
            "gates = self.input(x) + self.hidden(h)",
            "gates = F.linear(paddle.concat([x, h], -1), paddle.concat([self.input.weight, self.hidden.weight]), self.input.bias + self.hidden.bias)",
        ),
    ),
    harmless(
        "functional-loop",
        "the loop as a recursion",
        (
            "            steps.append(y)\n        return paddle.concat(steps, 1)\n",
            "            steps = [*steps, y]\n        return paddle.stack(steps, 1).squeeze(2)\n",
        ),
    ),
    harmless(
        "mask-where",
        "the mask by a choice",
        ("scores = scores.masked_fill(~valid, -1e9)", "scores = paddle.where(valid, scores, paddle.full_like(scores, -1e9))"),
    ),
    harmless(
        "scale-first",
        "scores divided before the mask",
        (
            "            scores = scores.masked_fill(~valid, -1e9)\n            weights = F.softmax(scores / WIDTH**0.5, -1)\n",
            "            scores = scores / WIDTH**0.5\n            scores = scores.masked_fill(~valid, -1e9)\n            weights = F.softmax(scores, -1)\n",
        ),
    ),
    harmless(
        "keys-first",
        "the query's matrix applied to the states",
        (
            'scores = paddle.einsum("bw,btw->bt", self.query(h), states)',
            "keys = paddle.matmul(states, self.query.weight, transpose_y=True)\n"
            "            scores = paddle.matmul(keys, h.unsqueeze(2)).squeeze(2) + paddle.matmul(states, self.query.bias)",
        ),
    ),
]
