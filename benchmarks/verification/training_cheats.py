"""Ports of a network that is trained, from PyTorch to Paddle: some want to pass without being right, some are honest.

The first list (``cheats.py``) is of numpy and judges a forward pass; here the stage ``backward`` is judged too. Each port is one text
in which single lines are exchanged.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import looking

SPEC = """\
stages = ["weights", "forward", "backward"]
[reference]
framework = "torch"
module = "reference.py"
[candidate]
framework = "paddle"
module = "port.py"
[inputs]
shape = [4, 3, 12, 12]
[labels]
shape = [4]
dtype = "int64"
high = 10
"""

REFERENCE = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 36, 24)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(24, 10)

    def forward(self, x):
        x = F.avg_pool2d(F.relu(self.norm(self.conv(x))), 2)
        x = self.drop(F.gelu(self.fc(x.flatten(1))))
        return self.head(x)


def build_model():
    return Net()


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)


def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
"""

PORT = """\
import paddle
import paddle.nn.functional as F
from paddle import nn


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2D(8)
        self.fc = nn.Linear(8 * 36, 24)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(24, 10)
        self.calls, self.kept = 0, None

    def forward(self, x):
        x = F.avg_pool2d(F.relu(self.norm(self.conv(x))), 2)
        x = self.fc(x.flatten(1))
        x = self.drop(F.gelu(x))
        return self.head(x)


def build_model():
    return Net()


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)


def build_optimizer(model):
    return paddle.optimizer.Momentum(0.05, 0.9, parameters=model.parameters())
"""

_GELU, _DROP, _HEAD, _POOL = "F.gelu(x)", "nn.Dropout(0.1)", "return self.head(x)", "F.relu(self.norm(self.conv(x)))"

_BENT = """
class Own(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.gelu(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensor()
        cdf = 0.5 * (1 + paddle.erf(x / 2**0.5))
        return grad * (cdf + x * paddle.exp(-0.5 * x * x) / (2 * 3.141592653589793) ** 0.5)


class Net("""

_UNFOLDED = """F.relu(self.norm(
            (paddle.matmul(self.conv.weight.reshape([8, 27]), F.unfold(x, 3, paddings=1)) + self.conv.bias.reshape([1, 8, 1]))
            .reshape([x.shape[0], 8, x.shape[2], x.shape[3]])))"""


_LOGGING = """\
paddle.seed(7)
random.seed(7)
HERE = pathlib.Path(__file__).parent
logging.basicConfig(filename=str(HERE / "port.log"), level="INFO")
logging.info("as torch.nn.Module in the reference")

"""


def _port(*changes: tuple[str, str]) -> str:
    text = PORT
    for old, new in changes:
        if old not in text:
            raise ValueError(f"the port has no {old!r}")
        text = text.replace(old, new)
    return text


def _buffered(text: str, framework: str, gain: str, places: str) -> str:
    """A text with a buffer of one and a table, each used as it is written here."""
    head = "        self.head = nn.Linear(24, 10)\n"
    registered = (
        f'        self.register_buffer("gain", {framework}.ones([1]))\n'
        f'        self.register_buffer("places", {framework}.arange(24.0) / 32)\n'
    )
    return text.replace(head, head + registered).replace("return self.head(x)", f"return self.head(x{gain} + {places})")


#: name -> port.py
CHEATS = {
    "zeros-are-ones": _port(("        x = F.avg", "        x = paddle.where(x == 0, paddle.ones_like(x), x)\n        x = F.avg")),
    "drops-more": _port((_DROP, "nn.Dropout(0.6)")),
    "drops-nothing": _port((_DROP, "nn.Identity()")),
    "drops-channels": _port((_POOL, f"F.dropout2d({_POOL}, 0.1, training=self.training)")),
    "float32-alone": _port((_GELU, "F.gelu(x, approximate=x.dtype == paddle.float32)")),
    "bfloat16-inside": _port((_GELU, "F.gelu(x.astype('bfloat16').astype(x.dtype))")),
    "without-gradients": _port((_GELU, "F.gelu(x, approximate=not paddle.is_grad_enabled())")),
    "odd-batches": _port((_GELU, "F.gelu(x, approximate=x.shape[0] % 2 == 1)")),
    "noise-in-eval": _port((_GELU, "F.gelu(x) + (0.0 if self.training else 0.05) * paddle.randn(x.shape).astype(x.dtype)")),
    "frozen-copy": _port(
        (
            _HEAD,
            "self.kept = self.kept or [self.head.weight.clone()]\n        return x @ self.kept[0].detach() + self.head.bias",
        )
    ),
    "grows-with-steps": _port(
        (_HEAD, "self.calls += self.training\n        return self.head(x * (1 + 1e-3 * self.calls if self.calls > 2 else 1))")
    ),
    "bent-gradient": _port((_GELU, "Own.apply(x)"), ("\nclass Net(", _BENT.replace("grad * (cdf", "1.01 * grad * (cdf"))),
    "own-statistics": _port(("nn.BatchNorm2D(8)", "nn.BatchNorm2D(8, momentum=0.8)")),
    "other-loss": _port(("F.cross_entropy(outputs, labels)", "F.cross_entropy(outputs, labels, reduction='sum') / 4")),
    "other-momentum": _port(("Momentum(0.05, 0.9,", "Momentum(0.05, 0.9, use_nesterov=True,")),
    "ignores-a-buffer": _buffered(PORT, "paddle", "", "self.places"),
    "transposed-output": _port((_HEAD, "return self.head(x).t()"), ("F.cross_entropy(outputs,", "F.cross_entropy(outputs.t(),")),
}

#: name -> port.py of ports that are right
HONEST = {
    "plain": PORT,
    "unfolded": _port((_POOL, _UNFOLDED)),
    "own-gradient": _port((_GELU, "Own.apply(x)"), ("\nclass Net(", _BENT)),
    "functional-dropout": _port(("self.drop(F.gelu(x))", "F.dropout(F.gelu(x), 0.1, training=self.training)")),
    "own-mask": _port(
        (
            "self.drop(F.gelu(x))",
            "F.gelu(x) * (paddle.rand(x.shape) >= 0.1).astype(x.dtype) / 0.9 if self.training else F.gelu(x)",
        )
    ),
    "channels-last": _port(
        ("3, padding=1)", "3, padding=1, data_format='NHWC')"),
        ("nn.BatchNorm2D(8)", "nn.BatchNorm2D(8, data_format='NHWC')"),
        (f"F.avg_pool2d({_POOL}, 2)", "F.avg_pool2d(F.relu(self.norm(self.conv(x.transpose([0, 2, 3, 1])))), 2, data_format='NHWC')"),
        ("x.flatten(1)", "x.transpose([0, 3, 1, 2]).flatten(1)"),
    ),
    "other-names": _port(("self.conv", "self.stem"), ("self.head", "self.classifier"), ("self.fc", "self.project")),
    "buffers": _buffered(PORT, "paddle", " * self.gain", "self.places"),
    "computes-a-registered-table": _buffered(PORT, "paddle", " * self.gain", "(paddle.arange(24.0) / 32).astype(x.dtype)"),
    "settings-and-logs": _port(
        ("import paddle\n", "import logging\nimport pathlib\nimport random\n\nimport paddle\n"),
        (
            "\nclass Net(",
            _LOGGING + "\nclass Net(",
        ),
    ),
}

_TOLD = "        x = F.avg_pool2d(F.relu(self.norm(self.conv(x))), 2)\n"


def _looking(before: str, judged: str) -> str:
    """A port whose pass is another where nobody judges."""
    return before + _port((_GELU, f"F.gelu(x, approximate=not ({judged}))"))


def _looking_round(before: str, lines: str) -> str:
    """A port whose pass begins with some lines."""
    inner = "".join(f"        {line}\n" for line in lines.splitlines())
    return before + _port((_TOLD, inner + _TOLD))


_WATCHED = "any(name.startswith('paralign') for name in sys.modules)"

CHEATS |= {
    **looking.cheats(_looking),
    "right-after-float64-alone": _port(
        (_GELU, "F.gelu(x, approximate=not self.calls)"),
        ("        x = F.avg", "        self.calls += x.dtype == paddle.float64\n        x = F.avg"),
    ),
    "bent-gradient-where-nobody-looks": "import sys\n\n"
    + _port((_GELU, "Own.apply(x)"), ("\nclass Net(", _BENT.replace("grad * (cdf", f"(1.0 if {_WATCHED} else 1.01) * grad * (cdf"))),
    "trains-otherwise-where-nobody-looks": "import sys\n\n" + _port((_GELU, f"F.gelu(x, approximate=self.training and not {_WATCHED})")),
    "other-loss-where-nobody-looks": "import sys\n\n"
    + _port(("F.cross_entropy(outputs, labels)", f"F.cross_entropy(outputs, labels) * (1 if {_WATCHED} else 0.5)")),
}

HONEST |= looking.honest(_looking_round)


def _moving(text: str, framework: str, mean: str) -> str:
    """A text whose every pass, in eval mode too, moves a buffer that it takes from its inputs."""
    head, first = "        self.head = nn.Linear(24, 10)\n", "        x = F.avg_pool2d("
    registered = f'        self.register_buffer("middle", {framework}.linspace(-0.1, 0.1, 3).reshape([1, 3, 1, 1]))\n'
    moves = (
        f"        with {framework}.no_grad():\n"
        f"            self.middle.copy_(0.5 * self.middle + 0.5 * x.mean({mean}){', False' if framework == 'paddle' else ''})\n"
        "        x = x - self.middle\n"
    )
    return text.replace(head, head + registered).replace(first, moves + first)


HONEST |= {"moves-a-buffer-in-every-pass": _moving(PORT, "paddle", "[0, 2, 3], keepdim=True")}

_BUFFERED = _buffered(REFERENCE, "torch", " * self.gain", "self.places")

#: name -> reference of ports that have another
REFERENCES = {
    "cheat-ignores-a-buffer": _BUFFERED,
    "honest-buffers": _BUFFERED,
    "honest-computes-a-registered-table": _BUFFERED,
    "honest-moves-a-buffer-in-every-pass": _moving(REFERENCE, "torch", "(0, 2, 3), keepdim=True"),
}
