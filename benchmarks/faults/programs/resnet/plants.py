"""What is planted in the small ResNet."""

from corpus import fault, harmless

PLANTS = [
    fault(
        "forward",
        "pool-exclusive",
        "B001",
        "average pooling leaves the padding out of its count",
        "padding=1, exclusive=False)",
        "padding=1)",
        at="shortcut = self.pool(x)",
    ),
    fault(
        "forward",
        "same-padding",
        "B009",
        'padding="SAME" pads unevenly at stride 2',
        "nn.Conv2D(3, 16, 7, stride=2, padding=3, ",
        'nn.Conv2D(3, 16, 7, stride=2, padding="SAME", ',
        at="x = self.stem(x)",
    ),
    fault(
        "forward",
        "flatten-nhwc",
        "B056",
        "flattened in the order height, width, channel",
        "x = paddle.flatten(x, 1)",
        "x = paddle.flatten(x.transpose([0, 2, 3, 1]), 1)",
    ),
    fault(
        "forward",
        "batch-statistics",
        "B051",
        "BatchNorm of the stem uses the batch's statistics in eval mode too",
        "x = self.bn(x)",
        "x = F.batch_norm(x, self.bn._mean, self.bn._variance, self.bn.weight, self.bn.bias, training=True)",
    ),
    fault(
        "forward",
        "bn-eps",
        "B139",
        "BatchNorm epsilon 1e-3 where the reference has 1e-5",
        "self.bn2 = nn.BatchNorm2D(outer)",
        "self.bn2 = nn.BatchNorm2D(outer, epsilon=1e-3)",
        at="x = self.bn2(self.conv2(x))",
    ),
    fault(
        "forward",
        "late-relu",
        "order",
        "no activation between the convolutions of a block",
        "x = F.relu(self.bn1(self.conv1(x)))",
        "x = self.bn1(self.conv1(x))",
    ),
    fault(
        "forward",
        "relu-before-add",
        "order",
        "activation before the shortcut is added",
        "return F.relu(x + shortcut)",
        "return F.relu(x) + shortcut",
    ),
    fault(
        "forward",
        "pool-ceil",
        "B001",
        "max pooling rounds its size up and pads by none",
        "nn.MaxPool2D(3, stride=2, padding=1)",
        "nn.MaxPool2D(3, stride=2, padding=0, ceil_mode=True)",
        at="x = self.maxpool(x)",
    ),
    fault(
        "forward",
        "shortcut-unscaled",
        "missing",
        "BatchNorm of the shortcut left out",
        "shortcut = self.bn3(self.project(shortcut))",
        "shortcut = self.project(shortcut)",
    ),
    fault(
        "backward",
        "no-smoothing",
        "normalization",
        "label smoothing of 0.01 where the reference has 0.1",
        "epsilon=0.1)",
        "epsilon=0.01)",
        at="return F.cross_entropy(outputs",
    ),
    fault(
        "backward",
        "bn-momentum",
        "B140",
        "PyTorch's momentum copied: Paddle counts the other share",
        "        self.bn = nn.BatchNorm2D(16)",
        "        self.bn = nn.BatchNorm2D(16, momentum=0.1)",
        at="x = self.bn(x)",
    ),
    fault(
        "backward",
        "bn-frozen",
        "B139",
        "BatchNorm of a block keeps its statistics in train mode",
        "self.bn1 = nn.BatchNorm2D(outer)",
        "self.bn1 = nn.BatchNorm2D(outer, use_global_stats=True)",
        at="x = F.relu(self.bn1(self.conv1(x)))",
    ),
    fault(
        "backward", "frozen-stem", "B128", "the stem does not train", "        x = self.stem(x)\n", "        x = self.stem(x).detach()\n"
    ),
    fault(
        "backward",
        "frozen-parameter",
        "frozen",
        "a weight is marked as not to be trained",
        "    return ResNet()",
        "    model = ResNet()\n    model.head.weight.stop_gradient = True\n    return model",
        at="return self.head(x)",
    ),
    fault(
        "backward",
        "loss-sum",
        "B150",
        "the loss is multiplied by the batch size",
        "return F.cross_entropy(outputs, target, soft_label=True)",
        'return F.cross_entropy(outputs, target, soft_label=True, reduction="sum")',
    ),
    fault("update", "momentum", "momentum", "momentum 0.99 where the reference has 0.9", "momentum=0.9,", "momentum=0.99,"),
    fault(
        "update", "nesterov", "momentum", "plain momentum where the reference uses Nesterov's", "use_nesterov=True", "use_nesterov=False"
    ),
    fault("update", "weight-decay", "B106", "weight decay left out", "        weight_decay=1e-3,\n", ""),
    fault(
        "update",
        "decay-l1",
        "weight-decay",
        "L1 decay where the reference has L2",
        "weight_decay=1e-3",
        "weight_decay=paddle.regularizer.L1Decay(1e-3)",
    ),
    fault(
        "update",
        "layer-rate",
        "B121",
        "a layer learns at a tenth of the rate",
        "self.head = nn.Linear(64, CLASSES)",
        "self.head = nn.Linear(64, CLASSES, weight_attr=paddle.ParamAttr(learning_rate=0.1))",
    ),
    fault("update", "cosine-steps", "B116", "the cosine is as long as an epoch, not as the training", "T_max=10)", "T_max=5)"),
    fault(
        "random",
        "dropout-rate",
        "B003",
        "dropout of 0.5 where the reference has 0.2",
        "self.drop = nn.Dropout(0.2)",
        "self.drop = nn.Dropout(0.5)",
        at="x = self.drop(x)",
    ),
    fault("random", "no-dropout", "missing", "dropout left out", "        x = self.drop(x)\n", ""),
    fault(
        "data",
        "antialias",
        "B065",
        "resized without smoothing before",
        "return image.resize((48, 48), Image.BILINEAR)",
        'batch = paddle.to_tensor(np.asarray(image, "float32").transpose(2, 0, 1)[None])\n'
        '    small = F.interpolate(batch, (48, 48), mode="bilinear")[0].numpy().transpose(1, 2, 0)\n'
        '    return Image.fromarray(small.round().astype("uint8"))',
    ),
    fault("data", "bicubic", "B066", "bicubic where the reference is bilinear", "Image.BILINEAR", "Image.BICUBIC"),
    fault("data", "nearest", "B068", "nearest where the reference is bilinear", "Image.BILINEAR", "Image.NEAREST"),
    fault(
        "data",
        "bgr",
        "B069",
        "channels in the order blue, green, red",
        'np.asarray(image, "float32") / 255',
        'np.asarray(image, "float32")[..., ::-1] / 255',
    ),
    fault("data", "mean-order", "B071", "the mean in the order blue, green, red", "(array - MEAN) / STD", "(array - MEAN[::-1]) / STD"),
    fault(
        "data",
        "no-normalise",
        "B072",
        "not normalised",
        "resize, center_crop, to_array, normalize, to_tensor]",
        "resize, center_crop, to_array, to_tensor]",
    ),
    fault("data", "no-255", "B079", "not divided by 255", 'np.asarray(image, "float32") / 255', 'np.asarray(image, "float32")'),
    fault("data", "normalise-order", "B071", "divided before the mean is taken off", "(array - MEAN) / STD", "array / STD - MEAN"),
    fault(
        "data", "crop-offset", "off-by-one", "cropped one pixel to the right", "image.crop((4, 4, 44, 44))", "image.crop((5, 4, 45, 44))"
    ),
    fault("data", "swap-axes", "layout", "width and height exchanged", "array.transpose(2, 0, 1)", "array.transpose(2, 1, 0)"),
    fault("data", "label-shift", "B149", "labels from one", "label = index % CLASSES", "label = index % CLASSES + 1"),
    fault(
        "data",
        "shuffled",
        "B161",
        "shuffled where the reference keeps the order",
        "batch_size=4, shuffle=False",
        "batch_size=4, shuffle=True",
    ),
    fault(
        "data",
        "drop-last",
        "B155",
        "the last partial batch left out",
        "batch_size=4, shuffle=False",
        "batch_size=4, shuffle=False, drop_last=True",
    ),
    harmless(
        "definition-order",
        "layers defined in another order",
        ("        self.stem = nn.Conv2D(3, 16, 7, stride=2, padding=3, bias_attr=False)\n        self.bn = nn.BatchNorm2D(16)\n", ""),
        (
            "        self.head = nn.Linear(64, CLASSES)\n",
            "        self.head = nn.Linear(64, CLASSES)\n        self.bn = nn.BatchNorm2D(16)\n"
            "        self.stem = nn.Conv2D(3, 16, 7, stride=2, padding=3, bias_attr=False)\n",
        ),
    ),
    harmless(
        "module-relu",
        "an activation as a layer, called for all",
        ("        self.drop = nn.Dropout(0.2)\n", "        self.drop = nn.Dropout(0.2)\n        self.relu = nn.ReLU()\n"),
        ("        x = F.relu(x)\n", "        x = self.relu(x)\n"),
        ("x = F.relu(self.hidden(x))", "x = self.relu(self.hidden(x))"),
    ),
    harmless(
        "unfold-conv",
        "the stem as unfold and matrix product",
        (
            "        x = self.stem(x)\n",
            "        patches = F.unfold(x, 7, strides=2, paddings=3)\n"
            "        x = paddle.matmul(self.stem.weight.reshape([16, -1]), patches).reshape([x.shape[0], 16, x.shape[2] // 2, -1])\n",
        ),
    ),
    harmless(
        "channels-last",
        "the stem's BatchNorm and pooling with channels last",
        (
            "        x = self.bn(x)\n        x = F.relu(x)\n        x = self.maxpool(x)\n",
            "        x = x.transpose([0, 2, 3, 1])\n"
            "        statistics = self.bn._mean, self.bn._variance\n"
            '        x = F.batch_norm(x, *statistics, self.bn.weight, self.bn.bias, training=self.training, data_format="NHWC")\n'
            "        x = F.relu(x)\n"
            '        x = F.max_pool2d(x, 3, stride=2, padding=1, data_format="NHWC").transpose([0, 3, 1, 2])\n',
        ),
    ),
    harmless(
        "extra-operations",
        "identities, casts and reshapes in between",
        (
            "        x = self.maxpool(x)\n",
            "        x = x.reshape([x.shape[0], 16, -1]).reshape(x.shape)\n        x = x.astype(x.dtype)\n        x = x + 0\n        x = self.maxpool(x)\n"
            "        x = x.clone()\n",
        ),
    ),
    harmless(
        "mean-pool",
        "pooling by a mean over parts",
        (
            "x = F.adaptive_avg_pool2d(x, 2)",
            "n = x.shape[2]\n"
            "        halves = slice(0, (n + 1) // 2), slice(n // 2, n)\n"
            "        rows = [paddle.concat([x[:, :, a, b].mean([2, 3], keepdim=True) for b in halves], 3) for a in halves]\n"
            "        x = paddle.concat(rows, 2)",
        ),
    ),
    harmless(
        "pool-as-conv",
        "average pooling as a convolution by a constant in each channel",
        (
            "shortcut = self.pool(x)",
            "ones = paddle.full([x.shape[1], 1, 3, 3], 1 / 9, dtype=x.dtype)\n"
            "        shortcut = F.conv2d(x, ones, stride=self.pool.stride, padding=1, groups=x.shape[1])",
        ),
    ),
    harmless(
        "inplace",
        "activations in place",
        ("        x = self.bn(x)\n        x = F.relu(x)\n", "        x = self.bn(x)\n        x = F.relu_(x)\n"),
    ),
    harmless(
        "batch-split",
        "the batch in two halves",
        (
            "    def forward(self, x):\n        x = self.stem(x)",
            "    def forward(self, x):\n        if not self.training and x.shape[0] > 1:\n"
            "            half = x.shape[0] // 2\n"
            "            return paddle.concat([self.whole(x[:half]), self.whole(x[half:])])\n"
            "        return self.whole(x)\n\n    def whole(self, x):\n        x = self.stem(x)",
        ),
    ),
    harmless(
        "written-loss",
        "the loss from its formula",
        (
            "    return F.cross_entropy(outputs, target, soft_label=True)",
            "    return -(target * F.log_softmax(outputs, -1)).sum(-1).mean()",
        ),
    ),
    harmless("written-transforms", "normalisation as a product and a sum", ("(array - MEAN) / STD", "array * (1 / STD) - MEAN / STD")),
]
