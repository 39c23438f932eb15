"""What is planted in the window transformer."""

from corpus import fault, harmless

NAMES = {
    "bias.table": "table",
    "stage1.0": "one",
    "stage1.1": "two",
    "stage2.0": "three",
    "mixer.excitation": "mixer",
}

PLANTS = [
    fault(
        "forward",
        "windows-mixed",
        "layout",
        "the rows of windows are not brought together",
        "        x = x.transpose([0, 1, 3, 2, 4, 5])\n        return x.reshape([-1, WINDOW * WINDOW, channels])",
        "        x = x.transpose([0, 3, 1, 2, 4, 5])\n        return x.reshape([-1, WINDOW * WINDOW, channels])",
    ),
    fault(
        "forward",
        "index-rows",
        "off-by-one",
        "a row of the table is one place too short",
        "down * (2 * WINDOW - 1) + along",
        "down * (2 * WINDOW - 2) + along",
    ),
    fault(
        "forward",
        "index-swapped",
        "layout",
        "rows and columns of the relative positions swapped",
        "down * (2 * WINDOW - 1) + along",
        "along * (2 * WINDOW - 1) + down",
    ),
    fault(
        "forward",
        "bias-transposed",
        "layout",
        "the relative bias from keys to queries",
        "reshape([WINDOW**2, WINDOW**2, HEADS]).transpose([2, 0, 1])",
        "reshape([WINDOW**2, WINDOW**2, HEADS]).transpose([2, 1, 0])",
    ),
    fault(
        "forward",
        "mask-regions",
        "mask",
        "regions that meet at the edge are told apart by a row too many",
        "[0] * (self.side - WINDOW) + [1] * (WINDOW - self.shift) + [2] * self.shift",
        "[0] * (self.side - WINDOW - 1) + [1] * (WINDOW - self.shift + 1) + [2] * self.shift",
    ),
    fault(
        "forward",
        "mask-missing",
        "missing",
        "no mask in shifted windows",
        "scores = scores + masks.unsqueeze(1)",
        "scores = scores + 0 * masks.unsqueeze(1)",
    ),
    fault(
        "forward",
        "mask-repeated",
        "layout",
        "each mask repeated for the images, not all masks for each image",
        "masks.tile([count // masks.shape[0], 1, 1])",
        "masks.repeat_interleave(count // masks.shape[0], 0)",
    ),
    fault("forward", "shift-sign", "sign", "shifted the other way", "shifts=(-self.shift, -self.shift)", "shifts=(self.shift, self.shift)"),
    fault(
        "forward",
        "shift-back",
        "missing",
        "not shifted back",
        "        if self.shift:\n            y = paddle.roll(y, shifts=(self.shift, self.shift), axis=(1, 2))\n        return x + y",
        "        return x + y",
    ),
    fault(
        "forward",
        "shift-axis",
        "axis",
        "only the rows are shifted",
        "shifts=(-self.shift, -self.shift), axis=(1, 2)",
        "shifts=-self.shift, axis=1",
    ),
    fault(
        "forward",
        "merge-order",
        "order",
        "patches merged row by row",
        "for column in (0, 1) for row in (0, 1)",
        "for row in (0, 1) for column in (0, 1)",
    ),
    fault("forward", "shuffle-groups", "config", "shuffled in four groups", "F.channel_shuffle(y, 2)", "F.channel_shuffle(y, 4)"),
    fault("forward", "shuffle-missing", "missing", "channels not shuffled", "        y = F.channel_shuffle(y, 2)\n", ""),
    fault(
        "forward",
        "dilation",
        "config",
        "no dilation",
        "3, padding=2, dilation=2, groups",
        "3, padding=1, groups",
        at="y = F.silu(self.depth(y))",
    ),
    fault(
        "forward",
        "group-count",
        "config",
        "two groups are normalised",
        "nn.GroupNorm(4, width",
        "nn.GroupNorm(2, width",
        at="y = self.norm(x)",
    ),
    fault("forward", "gate", "activation", "a smooth gate", "self.gate = nn.Hardsigmoid()", "self.gate = nn.Sigmoid()", at="self.gate("),
    fault(
        "forward",
        "gate-squared",
        "semantics",
        "the gate on the squeezed value",
        "return x * self.gate(self.excite(y))",
        "return self.gate(x * self.excite(y))",
    ),
    fault(
        "forward",
        "residual-normed",
        "order",
        "the residual takes the normalised value",
        "        return self.shrink(y) + x",
        "        return self.shrink(y) + self.norm(x)",
    ),
    fault(
        "forward",
        "topk-smallest",
        "config",
        "the smallest in place of the greatest",
        "paddle.topk(x, 9, axis=1)",
        "paddle.topk(x, 9, axis=1, largest=False)",
    ),
    fault("forward", "topk-count", "off-by-one", "the mean of eight", "best.mean(axis=1)", "best[:, :8].mean(axis=1)"),
    harmless(
        "gather",
        "the relative bias by gather",
        ("paddle.index_select(self.table, self.places().flatten(), axis=0)", "paddle.gather(self.table, self.places().flatten())"),
    ),
    harmless(
        "shuffle-written",
        "the shuffle by reshape and transpose",
        (
            "        y = F.channel_shuffle(y, 2)\n",
            "        batch, channels, height, width = y.shape\n"
            "        y = y.reshape([batch, 2, channels // 2, height, width]).transpose([0, 2, 1, 3, 4]).flatten(1, 2)\n",
        ),
    ),
    harmless(
        "mask-first",
        "the mask is added to the relative bias",
        (
            "        scores = scores + self.bias().unsqueeze(0)\n        if self.shift:\n"
            "            masks = self.masks().astype(scores.dtype)\n            masks = masks.tile([count // masks.shape[0], 1, 1])\n"
            "            scores = scores + masks.unsqueeze(1)\n",
            "        bias = self.bias().unsqueeze(0)\n        if self.shift:\n"
            "            masks = self.masks().astype(scores.dtype)\n            masks = masks.tile([count // masks.shape[0], 1, 1])\n"
            "            bias = bias + masks.unsqueeze(1)\n        scores = scores + bias\n",
        ),
    ),
    harmless(
        "sorted",
        "the greatest by a full sort",
        ("        best, _ = paddle.topk(x, 9, axis=1)\n", "        best = paddle.sort(x, axis=1, descending=True)[:, :9]\n"),
    ),
    harmless(
        "slices",
        "the shift by slices",
        (
            "            y = paddle.roll(y, shifts=(-self.shift, -self.shift), axis=(1, 2))\n",
            "            y = paddle.concat([y[:, self.shift :], y[:, : self.shift]], 1)\n"
            "            y = paddle.concat([y[:, :, self.shift :], y[:, :, : self.shift]], 2)\n",
        ),
    ),
]
