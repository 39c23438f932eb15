"""Which modules of a repository are losses: by what they do, whatever their names."""

from __future__ import annotations

import ast
import textwrap

import pytest

from paralign.scaffold import survey, write
from paralign.scaffold.losses import Losses, _Reading
from paralign.scaffold.survey import Kind

NET = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(4, 2)\n    def forward(self, x):\n        return self.fc(x)\n"
HEAD = "import torch\nimport torchvision\nfrom torch import nn\nimport torch.nn.functional as F\n\n"


def kind_of(tmp_path, name, code, net=NET):
    (tmp_path / "code.py").write_text(HEAD + textwrap.dedent(code) + "\n" + net)
    return {each.name: each.kind for file in survey(tmp_path).files for each in file.classes}[name]


LOSSES = {
    "a functional loss": "def forward(self, out, y): return F.cross_entropy(out, y)",
    "a mean": "def forward(self, out, y): return (out - y).abs().mean()",
    "a function of torch": "def forward(self, out, y): return torch.mean((out - y) ** 2)",
    "one of several ways": """
        def forward(self, out, y):
            bce = F.binary_cross_entropy(out, y, reduction="none")
            value = (1 - torch.exp(-bce)) ** self.gamma * bce
            if self.reduction == "mean":
                value = value.mean()
            elif self.reduction == "sum":
                value = value.sum()
            return value""",
    "one minus a ratio": """
        def forward(self, out, y, eps=1e-6):
            both = (out * y).sum()
            all = out.sum() + y.sum()
            return 1 - (2 * both + eps) / (all + eps)""",
    "divided by the batch": "def forward(self, out, y): return (out - y).pow(2).sum() / out.size(0) / max(1, y.shape[1])",
    "parts that were built": """
        def __init__(self):
            super().__init__()
            self.ce, self.w = None, 0.4
            self.bce = nn.BCEWithLogitsLoss()
        def forward(self, out, y, aux=None):
            value = self.bce(out, y)
            value += self.w * F.l1_loss(out, y)
            return value, {"bce": value}""",
    "its own method": """
        def part(self, out, y): return torch.sqrt(((out - y) ** 2).mean())
        def forward(self, out, y): return {"loss": self.part(out, y)}""",
    "one that was handed over": """
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
        def forward(self, out, y): return self.inner(out, y) * 2""",
    "parts without weights": """
        norm = nn.Softmax(-1)
        def __init__(self, smooth=True):
            super().__init__()
            inner = nn.CosineSimilarity()
            self.inner, self.act = inner, torch.sigmoid
            self.inner = inner
            self.act = torch.sigmoid if smooth else (lambda x: x)
            self.all = nn.Sequential(nn.Sigmoid(), nn.Flatten())
        def forward(self, a, b): return 1 - self.inner(self.act(a), self.all(self.norm(b))).mean()""",
    "losses that were handed over, in a loop": """
        def __init__(self, terms, weights):
            super().__init__()
            self.terms = terms
            self.weights = weights
        def forward(self, out, y):
            return F.l1_loss(out, y), [weight * term(out, y) for term, weight in zip(self.terms, self.weights)]""",
    "a distance that was handed over": """
        def __init__(self, distance):
            super().__init__()
            self.distance = distance
        def forward(self, a, p, n):
            near, far = 0, 0
            near = self.distance(a, p)
            far = self.distance(a, n)
            return F.relu(near - far + 1.0).mean()""",
    "a sum over parts": "def forward(self, outs, ys): return sum(F.mse_loss(o, y) for o, y in zip(outs, ys))",
}

MODELS = {
    "weights": """
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)
        def forward(self, x, y): return F.cross_entropy(self.fc(x), y)""",
    "a parameter": """
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))
        def forward(self, x, y): return ((x - y) * self.w).mean()""",
    "a part with weights": """
        def __init__(self):
            super().__init__()
            self.net = Net()
        def forward(self, x, y): return F.cross_entropy(self.net(x), y)""",
    "a model of a package": """
        def __init__(self):
            super().__init__()
            self.net = torchvision.models.resnet18()
        def forward(self, x, y): return F.cross_entropy(self.net(x), y)""",
    "an encoder that was handed over": """
        def __init__(self, encoder):
            super().__init__()
            self.encoder = encoder
        def forward(self, x1, x2): return -F.cosine_similarity(self.encoder(x1), self.encoder(x2), dim=-1).mean()""",
    "a part that a function builds": """
        def __init__(self, cfg):
            super().__init__()
            self.backbone = build_backbone(cfg)
        def forward(self, images, targets): return F.cross_entropy(self.backbone(images), targets)""",
    "a part that a class method builds": """
        def __init__(self, cfg):
            super().__init__()
            self.body = Encoder.from_config(cfg)
        def forward(self, ids, labels):
            logits = self.body(ids)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}""",
    "a part out of a table": """
        def __init__(self, cfg):
            super().__init__()
            self.net = LAYERS[cfg]()
        def forward(self, x, y): return ((self.net(x) - self.net(y)) ** 2).mean()""",
    "a method that calls an unknown part": """
        def __init__(self, net):
            super().__init__()
            self.nets = nn.ModuleList([net])
        def features(self, x): return self.nets[0](x)
        def forward(self, x, y): return F.mse_loss(self.features(x), self.features(y))""",
    "parts that were handed over, in a loop": """
        def __init__(self, nets, weights):
            super().__init__()
            self.nets, self.w = None, 1.0
            self.nets = nets
        def forward(self, x, y): return sum(F.mse_loss(net(x), y) for net in self.nets)""",
    "a part of two inputs whose result is judged": """
        def __init__(self, net):
            super().__init__()
            self.net = net
        def forward(self, x, t, noise):
            guess = self.net(x, t)
            return F.mse_loss(guess.view(-1), noise)""",
    "a part of two inputs whose result is held against something": """
        def __init__(self, net):
            super().__init__()
            self.net = net
        def forward(self, x, t, noise): return (self.net(x, t) - noise).pow(2).mean()""",
    "one input": "def forward(self, x): return x.mean()",
    "an axis is kept": "def forward(self, x, y): return (x * y).sum(1)",
    "a named axis is kept": "def forward(self, x, y): return torch.mean(x * y, dim=-1)",
    "elements are kept": "def forward(self, x, y): return F.mse_loss(x, y, reduction='none')",
    "normalised": "def forward(self, x, y): return (x - x.mean()) / y.max()",
    "attention": "def forward(self, q, k, v): return torch.softmax(q @ k.T / q.max(), -1) @ v",
    "no forward": "def loss(self, x, y): return F.mse_loss(x, y)",
    "it gives nothing": "def forward(self, x, y): pass",
    "it calls itself": "def forward(self, x, y): return self.forward(y, x)",
    "a value of itself": "def forward(self, x, y):\n            z = z\n            return z",
}


def module(body):
    return "class Thing(nn.Module):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")


@pytest.mark.parametrize("body", LOSSES.values(), ids=LOSSES)
def test_what_does_what_a_loss_does_is_one(tmp_path, body):
    assert kind_of(tmp_path, "Thing", module(body)) is Kind.LOSS


@pytest.mark.parametrize("body", MODELS.values(), ids=MODELS)
def test_what_does_something_else_is_a_model(tmp_path, body):
    assert kind_of(tmp_path, "Thing", module(body)) is Kind.MODEL


@pytest.mark.parametrize(
    "program",
    [
        "torch.optim.SGD(Thing().parameters(), lr=0.1)",
        "net = nn.DataParallel(Thing()).cuda()\noptimizer = torch.optim.SGD(params=net.parameters(), lr=0.1)",
        "class Trainer:\n    def __init__(self):\n        self.net = Thing().to(0)\n        self.optim = torch.optim.SGD([{'params': self.net.parameters()}])",
    ],
)
def test_what_is_trained_is_no_loss(tmp_path, program):
    body = module(LOSSES["a mean"])
    assert kind_of(tmp_path, "Thing", f"{body}\n\n{program}\n") is Kind.MODEL
    both = f"{body}\n\ncriterion = Thing()\nnet = Net()\ntorch.optim.SGD([*net.parameters(), *criterion.parameters()])\n"
    assert kind_of(tmp_path, "Thing", both) is Kind.LOSS


@pytest.mark.parametrize(("gives", "kind"), [("x * 2", Kind.LOSS), ("self.net(x)", Kind.MODEL), ("self.gone(x)", Kind.MODEL)])
def test_a_part_of_the_repository_is_read_too(tmp_path, gives, kind):
    part = f"class Part(nn.Module):\n    def __init__(self, net=None):\n        self.net = net\n    def forward(self, x): return {gives}\n"
    whole = "def __init__(self, net):\n    self.part = Part(net)\ndef forward(self, x, y): return F.mse_loss(self.part(x), y)"
    assert kind_of(tmp_path, "Thing", f"{part}\n\n{module(whole)}") is kind


def test_a_loss_by_its_base_or_by_a_function_of_another_file(tmp_path):
    (tmp_path / "terms.py").write_text("def dice(a, b):\n    return 1 - (a * b).sum()\n")
    code = "from terms import dice\n\n" + module("def forward(self, a, b): return dice(a, b)") + "\n\nclass Other(Thing):\n    pass\n"
    assert kind_of(tmp_path, "Other", code) is Kind.LOSS


def test_the_sides_build_the_model_and_call_the_loss(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "net.py").write_text(HEAD + module(LOSSES["a mean"]) + "\n\n" + NET)
    write(tmp_path / "port", survey(tmp_path / "code"))
    text = (tmp_path / "port" / "reference.py").read_text()
    assert "    return Net()" in text
    assert "    return Thing()(outputs, labels)" in text
    assert "also there: Thing" not in text


def test_the_users_word_and_a_repository_of_one_such_module(tmp_path):
    (tmp_path / "code").mkdir()
    path = tmp_path / "code" / "net.py"
    path.write_text(HEAD + module(LOSSES["a mean"]) + "\n")
    assert [each.name for each in survey(tmp_path / "code").models] == ["Thing"]  # nothing else could be the model
    path.write_text(HEAD + module(LOSSES["a mean"]) + "\n\n" + NET)
    write(tmp_path / "port", survey(tmp_path / "code"), "Thing")
    assert "return Thing()" in (tmp_path / "port" / "reference.py").read_text().partition("def loss")[0]


@pytest.mark.parametrize(
    "expression",
    [
        "+".join(["a"] * 900),
        "(" * 80 + "a" + ")" * 80 + "".join(f" + {n}" for n in range(700)),
        "-" * 90 + "a",
        "a.b" + ".c" * 800 + "()",
        "b * a.mean()" + ".abs()" * 40,
    ],
)
def test_each_part_of_a_deep_expression_is_read_once(tmp_path, monkeypatch, expression):
    read, left = _Reading._read, [len(list(ast.walk(ast.parse(expression))))]

    def counted(*args):
        left[0] -= 1
        assert left[0] >= 0, "read again"
        return read(*args)

    monkeypatch.setattr(_Reading, "_read", counted)
    assert kind_of(tmp_path, "Thing", module(f"def forward(self, a, b): return {expression}")) is Kind.MODEL


def test_parts_that_hold_one_another_are_read_once(tmp_path, monkeypatch):
    build, seen = Losses._builds_bare, []
    monkeypatch.setattr(Losses, "_builds_bare", lambda *args: seen.append(1) or build(*args))
    lines = "".join(f"\n    self.p{n} = nn.Sequential({', '.join([f'self.p{n + 1}'] * 20)})" for n in range(6))
    code = f"def __init__(self):{lines}\n    self.p6 = nn.ReLU()\ndef forward(self, a, b): return self.p4(a * b).mean()"
    assert kind_of(tmp_path, "Thing", module(code)) is Kind.LOSS
    assert len(seen) == 3
    assert kind_of(tmp_path, "Thing", module(code.replace("self.p4(", "self.p0("))) is Kind.MODEL  # deeper than people write
    assert len(seen) < 20


def test_classes_that_go_back_to_each_other_end(tmp_path):
    code = "class A(B):\n    def forward(self, x, y): return self.z(x, y)\n\nclass B(A, nn.Module):\n    def z(self, x, y): return self.z(y, x)\n"
    assert kind_of(tmp_path, "A", code) is Kind.MODEL
