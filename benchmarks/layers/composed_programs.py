"""Composed models: from a seed, the source of a PyTorch program and of its Paddle port.

Steps stand in line, in nested modules, in functions, in loops over a list of modules, in residual and parallel branches, and in modules
that are called twice.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from math import prod

import numpy as np
from composed_pictures import conv
from composed_sequences import linear
from composed_step import Step
from composed_steps import DOWN, STEPS

#: most elements of one sample between two steps
MOST = 1500

OPTIMIZERS = [
    ("SGD(model.parameters(), lr=RATE)", "SGD(RATE, parameters=model.parameters())"),
    (
        "SGD(model.parameters(), lr=RATE, momentum=0.9, weight_decay=1e-4)",
        "Momentum(RATE, momentum=0.9, weight_decay=1e-4, parameters=model.parameters())",
    ),
    (
        "AdamW(model.parameters(), lr=0.001, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.05)",
        "AdamW(0.001, beta1=0.9, beta2=0.98, epsilon=1e-8, weight_decay=0.05, parameters=model.parameters())",
    ),
]

#: the logarithms of the probabilities of the labels
CHOSEN = "T.«gather(F.log_softmax(y, dim=-1), 1, LABELS)|take_along_axis(F.log_softmax(y, axis=-1), LABELS, 1)»".replace(
    "LABELS", "labels.unsqueeze(1)"
)

HEADS = {
    "torch": "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n",
    "paddle": "import paddle\nimport paddle.nn.functional as F\nfrom paddle import nn\n",
}


@dataclass
class Program:
    """A model in both spellings, with its inputs and labels. ``steps`` are the names of what it does, in order."""

    seed: int
    steps: list[str]
    reference: str
    candidate: str
    inputs: list[np.ndarray]
    labels: np.ndarray

    def write(self, folder):
        """Write the project that ``paralign check`` takes."""
        folder.mkdir(parents=True)
        np.savez(folder / "data.npz", labels=self.labels, **{f"x{n}": value for n, value in enumerate(self.inputs)})
        given = ", ".join(f'data["x{n}"]' for n in range(len(self.inputs))) + ","
        loading = (
            "\n\ndata = np.load(Path(__file__).with_name('data.npz'))\n"
            f"\n\ndef inputs():\n    return ({given})\n"
            '\n\ndef labels():\n    return data["labels"]\n'
        )
        opening = "from pathlib import Path\n\nimport numpy as np\n"
        (folder / "reference.py").write_text(opening + self.reference + loading, encoding="utf-8")
        (folder / "candidate.py").write_text(self.candidate, encoding="utf-8")
        sides = [
            f'[{side}]\nmodule = "{side}.py"\nframework = "{framework}"\n'
            for side, framework in (("reference", "torch"), ("candidate", "paddle"))
        ]
        (folder / "paralign.toml").write_text("\n".join(sides), encoding="utf-8")


def spelled(text, framework):
    """A template as one framework writes it."""
    text = re.sub("«([^«»|]*)\\|([^«»]*)»", r"\1" if framework == "torch" else r"\2", text)
    return re.sub(r"\bT\.", f"{framework}.", text)


def has_ties(step):
    """Whether a step has no gradient of its own where masked positions make values equal: which of them it takes is left open."""
    return any(word in line for line in step.lines for word in ("sort(", ".max("))


@dataclass
class Class:
    """A module under construction."""

    name: str
    layers: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def attribute(self, name, made):
        found = f"{re.sub('[^a-z]', '_', name.lower())}{len(self.layers)}"
        self.layers.append(f"self.{found} = {made}")
        return found

    def add(self, step):
        names = {f"@{key}": self.attribute(step.name, made) for key, made in step.layers.items()}
        self.lines += [re.sub("@[a-d]", lambda match: names[match[0]], line) for line in step.lines]

    def text(self, arguments="x", result="x"):
        made = "".join(f"        {line}\n" for line in self.layers)
        done = "".join(f"        {line}\n" for line in self.lines)
        return (
            f"\n\nclass {self.name}(nn.«Module|Layer»):\n    def __init__(self):\n        super().__init__()\n{made}"
            f"\n    def forward(self, {arguments}):\n{done}        return {result}\n"
        )


class Composer:
    """Draws one program."""

    def __init__(self, seed, attempt=0):
        self.seed, self.rng = seed, random.Random(f"{seed} {attempt}" if attempt else seed)
        self.texts, self.steps = [], []
        self.model = Class("Net")
        self.masked = False

    def draw(self, shape, choices=None, *, kept=False):
        """A step that fits a shape; ``kept``: one that leaves the shape as it is."""
        while True:
            step = self.rng.choice(choices or STEPS[shape[0]])(self.rng, shape)
            if step is None or (self.masked and has_ties(step)):
                continue
            if prod(step.shape[1:]) <= MOST and (not kept or step.shape == shape):
                self.steps.append(step.name)
                return step

    def block(self, shape, count, *, kept=False, residual=False):
        """The name of a new class of some steps, and the shape of its result."""
        made = Class(f"Block{len(self.texts)}")
        for _ in range(count):
            step = self.draw(shape, kept=kept)
            made.add(step)
            shape = step.shape
        if residual:
            made.lines.insert(0, "kept = x")
        self.texts.append(made.text(result="x + kept" if residual else "x"))
        return made.name, shape

    def element(self, shape):
        """One element of the model: a step, or several in one of the forms that programs have."""
        form = self.rng.choice(["plain", "plain", "plain", "function", "block", "residual", "twice", "loop", "branches"])
        count = self.rng.randint(1, 2)
        if form == "plain":
            step = self.draw(shape)
            self.model.add(step)
            return step.shape
        if form == "function":
            return self.function(shape)
        if form == "block":
            name, after = self.block(shape, count + 1)
            self.use("x = self.@a(x)", f"{name}()")
            return after
        if form == "branches":
            names = [self.block(shape, 1, kept=True)[0] for _ in range(2)]
            self.use("x = 0.5 * (self.@a(x) + self.@b(x))", *(f"{name}()" for name in names))
            return shape
        name, _ = self.block(shape, count, kept=True, residual=form == "residual" or self.rng.random() < 0.3)
        if form == "loop":
            made = f"nn.«ModuleList|LayerList»([{name}() for _ in range({self.rng.randint(2, 3)})])"
            self.model.add(Step("layers", shape, {"a": made}, ["for layer in self.@a:", "    x = layer(x)"]))
            return shape
        self.use("x = self.@a(self.@a(x))" if form == "twice" else "x = self.@a(x)", f"{name}()")
        return shape

    def use(self, line, *made):
        self.model.add(Step("block", (), dict(zip("ab", made, strict=False)), [line]))

    def function(self, shape):
        """A step without layers of its own as a function of the module."""
        while True:
            step = self.draw(shape)
            if not step.layers:
                break
            self.steps.pop()
        name = f"{re.sub('[^a-z]', '_', step.name)}_{len(self.texts)}"
        self.texts.append(f"\n\ndef {name}(x):\n" + "".join(f"    {line}\n" for line in step.lines) + "    return x\n")
        self.model.lines.append(f"x = {name}(x)")
        return step.shape

    def opening(self):
        """The inputs, and the first step: with parameters, so that everything behind it has a gradient."""
        rng, numbers = self.rng, np.random.RandomState(self.seed % 2**32)
        batch, kind = rng.randint(2, 4), rng.choice(["image", "image", "image", "seq", "seq", "tokens", "tokens", "rows"])
        if kind == "tokens":
            words, width, length = rng.randint(8, 20), 2 * rng.randint(2, 5), rng.randint(4, 9)
            pad = rng.choice(["", ", padding_idx=0"])
            step = Step("embedding", ("seq", length, width), {"a": f"nn.Embedding({words}, {width}{pad})"}, ["x = self.@a(x)"])
            given = numbers.randint(0, words, (batch, length))
            self.steps.append(step.name)
        else:
            sizes = {
                "image": lambda: (rng.choice([1, 3, 4]), rng.randint(6, 12), rng.randint(6, 12)),
                "seq": lambda: (rng.randint(4, 9), rng.randint(4, 8)),
                "rows": lambda: (rng.randint(5, 12),),
            }[kind]()
            given = numbers.randn(batch, *sizes).astype("float32")
            step = self.draw((kind, *sizes), [conv if kind == "image" else linear])
        self.model.add(step)
        inputs = [given]
        if step.shape[0] == "seq" and rng.random() < 0.3:
            inputs.append((numbers.rand(batch, step.shape[1]) < 0.7).astype("float32"))
            self.model.lines.append("x = x * keep.unsqueeze(-1)")
            self.masked = True
        return inputs, step.shape

    def program(self):
        inputs, shape = self.opening()
        batch = len(inputs[0])
        for _ in range(self.rng.randint(2, 5)):
            shape = self.element(shape)
            if shape[0] in DOWN and self.rng.random() < 0.15:
                shape = self.down(shape)
        while shape[0] != "rows":
            shape = self.down(shape)
        if self.rng.random() < 0.5:
            shape = self.element(shape)
        classes = self.rng.randint(3, 6)
        self.model.add(Step("head", ("rows", classes), {"a": f"nn.Linear({shape[1]}, {classes})"}, ["y = self.@a(x)"]))
        result = self.rng.choice(["y", "y", "y, x", "{'scores': y, 'features': x}"])
        self.texts.append(self.model.text("x" if len(inputs) == 1 else "x, keep", result))
        labels = self.ending(batch, classes, result)
        whole = "".join(self.texts)
        sides = [HEADS[framework] + spelled(whole, framework) for framework in ("torch", "paddle")]
        return Program(self.seed, self.steps, *sides, inputs, labels)

    def down(self, shape):
        step = self.draw(shape, DOWN[shape[0]] + [picture for picture in STEPS[shape[0]] if picture.__name__.endswith("pool")])
        self.model.add(step)
        return step.shape

    def ending(self, batch, classes, result):
        """Write loss, optimizer and model; the labels."""
        rng, numbers = self.rng, np.random.RandomState(self.seed % 2**32 + 1)
        whole = numbers.randint(0, classes, (batch,))
        floats = numbers.rand(batch, classes).astype("float32")
        text, labels = rng.choice(
            [
                (f"F.cross_entropy(y, labels, label_smoothing={rng.choice([0.0, 0.1])})", whole),
                (f"-({CHOSEN}).mean()", whole),
                ("F.binary_cross_entropy_with_logits(y, labels)", (floats > 0.5).astype("float32")),
                ("F.mse_loss(y, labels)", floats),
                ("F.smooth_l1_loss(y, labels)", floats),
                ("F.kl_div(F.log_softmax(y, «dim|axis»=-1), labels, reduction='batchmean')", floats / floats.sum(1, keepdims=True)),
                ("((y - labels).abs() ** 1.5).sum(«dim|axis»=-1).mean()", floats),
            ]
        )  # fmt: skip
        taken = {"y": "    y = outputs\n", "y, x": "    y, x = outputs\n"}.get(
            result, "    y, x = outputs['scores'], outputs['features']\n"
        )
        more = " + 0.01 * (x * x).mean()" if result != "y" else ""
        rate = rng.choice(["0.1", "0.01", "0.001"])
        first, second = rng.choice(OPTIMIZERS)
        made = f"«torch.optim.{first}|paddle.optimizer.{second}»".replace("RATE", rate)
        self.texts += [
            "\n\ndef build_model():\n    return Net()\n",
            f"\n\ndef loss(outputs, labels):\n{taken}    return {text}{more}\n",
            f"\n\ndef build_optimizer(model):\n    return {made}\n",
        ]
        return labels


def compose(seed, attempt=0):
    """The program of a seed; another one with each attempt."""
    return Composer(seed, attempt).program()
