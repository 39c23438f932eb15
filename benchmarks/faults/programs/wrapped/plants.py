"""What is planted around a library's network."""

from corpus import fault, harmless

#: names of the port -> names of the reference
NAMES = {"body.": ""}

PLANTS = [
    fault(
        "forward",
        "attention-axis",
        "axis",
        "softmax over the pictures",
        "F.softmax(self.score(x).flatten(2), -1)",
        "F.softmax(self.score(x).flatten(2), 0)",
    ),
    fault("forward", "pooled-mean", "semantics", "the mean where the reference has the sum", "weights).sum(-1)", "weights).mean(-1)"),
    fault("forward", "classes-scaled", "scale", "the output scaled", "return self.body(x)", "return self.body(x * 0.9)"),
    fault(
        "forward",
        "wide-activation",
        "activation",
        "the library's activation exchanged in one place",
        "        self.body.features[18] = ",
        "        self.body.features[2].conv[0][2] = nn.ReLU()\n        self.body.features[18] = ",
        at="return self.body(x)",
    ),
    fault(
        "forward",
        "library-eps",
        "B139",
        "epsilon of one of the library's norms",
        "        self.body.features[18] = ",
        "        self.body.features[0][1]._epsilon = 1e-3\n        self.body.features[18] = ",
        at="return self.body(x)",
    ),
    harmless(
        "identity",
        "an identity around a stage of the library",
        (
            "        self.body.features[18] = ",
            "        self.body.features[1] = nn.Sequential(self.body.features[1], nn.Identity())\n        self.body.features[18] = ",
        ),
        weights={"features.1.0.": ("features.1.",)},
    ),
    harmless(
        "matmul-pooling",
        "pooling by a product",
        (
            "        pooled = (x.flatten(2) * weights).sum(-1)\n        return x + pooled.unsqueeze([2, 3])\n",
            "        pooled = x.flatten(2) @ weights.transpose([0, 2, 1])\n        return x + pooled.unsqueeze(3)\n",
        ),
    ),
    harmless(
        "parts",
        "features and classifier called one by one",
        (
            "        return self.body(x)\n",
            "        x = self.body.features(x)\n        x = F.adaptive_avg_pool2d(x, 1).flatten(1)\n        return self.body.classifier(x)\n",
        ),
    ),
]
