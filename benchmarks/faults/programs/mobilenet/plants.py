"""What is planted in the MobileNetV3-like network."""

from corpus import fault, harmless

PLANTS = [
    fault(
        "forward",
        "even-padding",
        "B008",
        "padded on both sides where the reference pads below and on the right",
        "        x = F.pad(x, [0, 1, 0, 1])\n",
        "        x = F.pad(x, [1, 0, 1, 0])\n",
    ),
    fault("forward", "hardsigmoid-slope", "default-arg", "the slope 0.2 of other frameworks", "slope=1 / 6)", "slope=0.2)"),
    fault(
        "forward",
        "gate-relu6",
        "activation",
        "the gate is a plain sigmoid",
        "F.hardsigmoid(self.expand(gate), slope=1 / 6)",
        "F.sigmoid(self.expand(gate))",
    ),
    fault(
        "forward",
        "hardswish-swish",
        "B013",
        "swish where the reference has hardswish",
        "x = F.hardswish(self.neck(x))",
        "x = F.swish(self.neck(x))",
    ),
    fault(
        "forward",
        "bn-eps-default",
        "B139",
        "BatchNorm's default epsilon where the reference has 1e-3",
        "self.bn = nn.BatchNorm2D(16, epsilon=1e-3, momentum=0.99)",
        "self.bn = nn.BatchNorm2D(16, momentum=0.99)",
        at="x = F.hardswish(self.bn(x))",
    ),
    fault(
        "forward",
        "gate-max",
        "config",
        "the gate looks at the greatest value, not the mean",
        "gate = x.mean([2, 3], keepdim=True)",
        "gate = x.max([2, 3], keepdim=True)",
    ),
    fault(
        "forward",
        "no-skip",
        "missing",
        "no shortcut where it is due",
        "return x + y if self.skip else y",
        "return y",
        at="y = self.bn3(self.project(y))",
    ),
    fault(
        "forward",
        "small-epsilon-one-layer",
        "epsilon",
        "one BatchNorm of three has epsilon 1.1e-3",
        "self.bn3 = nn.BatchNorm2D(outer, epsilon=1e-3",
        "self.bn3 = nn.BatchNorm2D(outer, epsilon=1.1e-3",
        at="y = self.bn3(self.project(y))",
    ),
    fault(
        "forward",
        "dropout-on",
        "B003",
        "functional dropout that scales in eval mode",
        "x = self.dropout(x)",
        'x = F.dropout(x, 0.2, training=self.training, mode="downscale_in_infer")',
    ),
    fault(
        "backward",
        "bn-momentum-same",
        "B140",
        "TensorFlow's momentum copied as PyTorch's",
        "self.bn1 = nn.BatchNorm2D(wide, epsilon=1e-3, momentum=0.99)",
        "self.bn1 = nn.BatchNorm2D(wide, epsilon=1e-3, momentum=0.01)",
        at="y = self.act(self.bn1(self.expand(x)))",
    ),
    fault(
        "backward",
        "focus-detached",
        "B128",
        "no gradient through the focus of the loss",
        "focus = (1 - chosen.exp()) ** 2",
        "focus = (1 - chosen.exp()).detach() ** 2",
    ),
    fault(
        "backward",
        "gate-detached",
        "detach",
        "no gradient into the gate",
        "gate = x.mean([2, 3], keepdim=True)",
        "gate = x.detach().mean([2, 3], keepdim=True)",
    ),
    fault(
        "update",
        "eps-inside",
        "B100",
        "epsilon inside the root",
        "(paddle.sqrt(square) + self.epsilon)",
        "paddle.sqrt(square + self.epsilon)",
    ),
    fault("update", "eps-value", "epsilon", "epsilon 1e-8 where the reference has 1e-3", "rho=0.9, epsilon=1e-3", "rho=0.9, epsilon=1e-8"),
    fault("update", "rho", "config", "0.99 of the squares kept where the reference keeps 0.9", "rho=0.9, epsilon", "rho=0.99, epsilon"),
    fault(
        "update",
        "rate-in-velocity",
        "B112",
        "the scaled gradients are clipped",
        "velocity = self.momentum * self.velocity.get(name, 0.0) + scaled",
        "velocity = self.momentum * self.velocity.get(name, 0.0) + scaled.clip(-1, 1)",
    ),
    fault(
        "update",
        "square-one",
        "default-arg",
        "squares start from one, as TensorFlow's do",
        "self.square.get(name, paddle.zeros_like(gradient))",
        "self.square.get(name, paddle.ones_like(gradient))",
    ),
    fault("update", "gamma", "B116", "the rate falls faster", "gamma=0.97", "gamma=0.9"),
    harmless(
        "written-hardswish",
        "hardswish from its formula",
        ("x = F.hardswish(self.bn(x))", "x = self.bn(x)\n        x = x * F.relu6(x + 3) / 6"),
    ),
    harmless("float32-constant", "the slope as a constant of single precision", ("slope=1 / 6)", "slope=0.16666667)")),
    harmless(
        "pool-layer",
        "means by adaptive pooling",
        ("gate = x.mean([2, 3], keepdim=True)", "gate = F.adaptive_avg_pool2d(x, 1)"),
        ("        x = x.mean([2, 3])\n", "        x = F.adaptive_avg_pool2d(x, 1).flatten(1)\n"),
    ),
    harmless(
        "gate-linear",
        "the gate by matrix products",
        (
            "        gate = F.relu(self.reduce(gate))\n        gate = F.hardsigmoid(self.expand(gate), slope=1 / 6)\n",
            "        gate = gate.flatten(1)\n"
            "        gate = F.relu(F.linear(gate, self.reduce.weight.flatten(1).T, self.reduce.bias))\n"
            "        gate = F.hardsigmoid(F.linear(gate, self.expand.weight.flatten(1).T, self.expand.bias), slope=1 / 6)\n"
            "        gate = gate.unsqueeze([2, 3])\n",
        ),
    ),
    harmless(
        "padding-in-conv",
        "the padding inside the convolution",
        (
            "self.stem = nn.Conv2D(3, 16, 3, stride=2, bias_attr=False)",
            "self.stem = nn.Conv2D(3, 16, 3, stride=2, padding=[0, 1, 0, 1], bias_attr=False)",
        ),
        ("        x = F.pad(x, [0, 1, 0, 1])\n", ""),
    ),
    harmless(
        "layer-list",
        "a list in place of a sequence",
        ("self.blocks = nn.Sequential(", "self.blocks = nn.LayerList(["),
        ("            Inverted(24, 72, 24, 5, 1, True),\n        )", "            Inverted(24, 72, 24, 5, 1, True),\n        ])"),
        ("        x = self.blocks(x)\n", "        for block in self.blocks:\n            x = block(x)\n"),
    ),
    harmless(
        "folded-norm",
        "BatchNorm folded into the last convolution of each block, in eval mode",
        (
            "        y = self.bn3(self.project(y))\n",
            "        if self.training:\n            y = self.bn3(self.project(y))\n        else:\n"
            "            factor = self.bn3.weight / paddle.sqrt(self.bn3._variance + 1e-3)\n"
            "            weight = self.project.weight * factor.reshape([-1, 1, 1, 1])\n"
            "            y = F.conv2d(y, weight, self.bn3.bias - self.bn3._mean * factor)\n",
        ),
    ),
    harmless(
        "written-loss",
        "the loss by classes, not by a choice",
        (
            "    chosen = paddle.take_along_axis(F.log_softmax(outputs, 1), labels.unsqueeze(1), 1)[:, 0]\n",
            '    chosen = -F.cross_entropy(outputs, labels, reduction="none")\n',
        ),
    ),
]
