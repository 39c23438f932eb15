"""One kit a framework: the same models, built from its own parts, for rules that every adapter must keep."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paralign.adapters import finding

FRAMEWORKS = [pytest.param("torch", marks=pytest.mark.torch), pytest.param("paddle", marks=pytest.mark.paddle), "numpy", "jax"]
LAYERED = FRAMEWORKS[:2]
#: where the rules are tried
DEVICE = os.environ.get("PARALIGN_TEST_DEVICE", "cpu")


@dataclass
class Pair:
    """An output that is no tensor and no container that frameworks know."""

    left: object
    right: object


class Callable:
    """What numpy lacks: a base class for layers."""

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)


class Dense(Callable):
    def __init__(self, width, out):
        self.parameters = {
            "weight": np.linspace(-1, 1, width * out, dtype="float32").reshape(width, out),
            "bias": np.full(out, 0.25, "float32"),
        }

    def forward(self, x):
        return x @ self.parameters["weight"] + self.parameters["bias"]


def models(kit):  # noqa: C901 - one class a shape of model, none of them complex
    """The models, as classes on the framework's own base class."""
    nn, layer = kit.nn, kit.layer

    class Block(layer):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return self.inner(x)  # call: inner

    class Net(layer):
        """Nested, with a list of layers, a layer called twice, integer and floating buffers."""

        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
            self.twice = nn.Linear(4, 4)
            self.block = Block()
            self.head = nn.Linear(4, 2)
            kit.buffer(self, "scale", np.full(4, 0.5, "float32"))
            kit.buffer(self, "steps", np.arange(3))

        def forward(self, x, shift=None):
            for step in self.layers:
                x = step(x)  # call: layers
            x = self.block(self.twice(self.twice(x) * self.scale))
            return {"out": self.head(x), "none": None, "pair": (x, Pair(x, shift))}  # call: head

    class Broken(layer):
        def __init__(self):
            super().__init__()
            self.inner = Block()

        def forward(self, x):
            raise ValueError(f"no good after {self.inner(x).shape}")

    class Guarded(layer):
        """A layer that fails two calls deep, and a caller that carries on."""

        def __init__(self):
            super().__init__()
            self.bad, self.good = Broken(), nn.Linear(4, 4)

        def forward(self, x):
            try:
                self.bad(x)
            except ValueError:
                return self.good(x)

    class Tied(layer):
        """One layer under two names."""

        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(4, 4)
            self.decoder = self.encoder

        def forward(self, x):
            return self.decoder(self.encoder(x))

    class Taking(layer):
        """Keyword arguments, and a choice of what to return."""

        def __init__(self):
            super().__init__()
            self.child = Returning()

        def forward(self, x, returned):
            return self.child(x, returned=returned)

    class Returning(layer):
        def forward(self, x, *, returned):
            return {"none": None, "tensor": x, "tuple": (x, [x]), "object": Pair(x, 1)}[returned]

    return SimpleNamespace(Block=Block, Net=Net, Broken=Broken, Guarded=Guarded, Tied=Tied, Taking=Taking)


class Kit:
    """What the rules need to know of a framework, made without the adapter under test."""

    parameter = ""  #: between a layer's path and its weight's name
    containers = True
    plain = False  #: models are objects with arrays: there are no layers
    mutable = True  #: arrays can be written to

    def __init__(self, name):
        self.name, self.adapter = name, finding.load(name)
        self.models = models(self)
        if DEVICE != "cpu":
            self.use(DEVICE)

    def use(self, device):
        """Have everything that the rules make lie on this device."""
        pytest.skip(f"{self.name} is held to the rules on a CPU only")

    def ones(self, *shape, dtype="float32"):
        return self.tensor(np.ones(shape, dtype))

    def weight(self, path):
        return ".".join(part for part in (path, self.parameter, "weight") if part)

    def values(self, model):
        """Copies of all values of a model's state by name."""
        return {e.name: np.array(self.adapter.to_array(e.tensor).array) for e in self.adapter.state(model)}

    def dtypes(self, model):
        return {e.name: self.adapter.to_array(e.tensor).dtype for e in self.adapter.state(model)}

    @staticmethod
    def line(marker):
        """``file:line`` of the call with this mark above."""
        lines = Path(__file__).read_text(encoding="utf-8").splitlines()
        return f"{__file__}:{1 + next(i for i, text in enumerate(lines) if text.endswith('# call: ' + marker))}"


class TorchKit(Kit):
    def __init__(self, name):
        import torch

        self.nn, self.layer = torch.nn, torch.nn.Module
        super().__init__(name)

    def use(self, device):
        """Have everything that the rules make lie on this device."""
        import torch

        self.adapter.use_device(device)
        torch.set_default_device(device.replace("gpu", "cuda"))

    def tensor(self, array):
        import torch

        return torch.from_numpy(np.array(array)).to(torch.get_default_device())

    def raw(self, name, bits):
        import torch

        return torch.from_numpy(np.array(bits)).view(getattr(torch, name)).to(torch.get_default_device())

    def buffer(self, module, name, array, persistent=True):
        module.register_buffer(name, self.tensor(array), persistent=persistent)

    def hooks(self, model):
        names = (
            "_forward_hooks",
            "_forward_pre_hooks",
            "_forward_hooks_with_kwargs",
            "_forward_hooks_always_called",
            "_forward_pre_hooks_with_kwargs",
        )
        return [[dict(getattr(m, name)) for name in names] for m in model.modules()]


class PaddleKit(Kit):
    def __init__(self, name):
        import paddle

        self.layer = paddle.nn.Layer
        self.nn = SimpleNamespace(Linear=paddle.nn.Linear, ModuleList=paddle.nn.LayerList)
        super().__init__(name)

    def tensor(self, array):
        import paddle

        return paddle.to_tensor(np.array(array))

    def raw(self, name, bits):
        import paddle

        return paddle.to_tensor(np.array(bits)).view(name)

    def buffer(self, module, name, array, persistent=True):
        module.register_buffer(name, self.tensor(array), persistable=persistent)

    def hooks(self, model):
        names = [name for name in vars(model) if "_forward_" in name and "hooks" in name]
        assert len(names) >= 5
        return [[dict(vars(m)[name]) for name in names] for m in model.sublayers(include_self=True)]


class NumpyKit(Kit):
    parameter, containers, plain = "parameters", False, True

    def __init__(self, name):
        self.nn, self.layer = SimpleNamespace(Linear=Dense, ModuleList=list), Callable
        super().__init__(name)

    def tensor(self, array):
        return np.array(array)

    def raw(self, name, bits):
        ml_dtypes = pytest.importorskip("ml_dtypes")
        return np.array(bits).view(getattr(ml_dtypes, name))

    def buffer(self, module, name, array, persistent=True):
        setattr(module, name, np.array(array))

    def hooks(self, model):
        return [dict(vars(cls)) for cls in (type(model), Dense, Callable, self.models.Block, self.models.Broken)]


class JaxKit(NumpyKit):
    """Plain objects with arrays of JAX; modules of flax.nnx have rules of their own in test_jax.py."""

    mutable = False

    def __init__(self, name):
        pytest.importorskip("jax", reason="needs JAX (the extra `jax`)")
        if name not in finding.known():
            pytest.skip("paralign's entry points are not installed")
        self.nn, self.layer = SimpleNamespace(Linear=self.dense, ModuleList=list), Callable
        Kit.__init__(self, name)

    def dense(self, width, out):
        made = Dense(width, out)
        made.parameters = {name: self.tensor(array) for name, array in made.parameters.items()}
        return made

    def tensor(self, array):
        import jax

        with jax.enable_x64(True):
            return jax.numpy.array(array)

    def raw(self, name, bits):
        return self.tensor(super().raw(name, bits))

    def buffer(self, module, name, array, persistent=True):
        setattr(module, name, self.tensor(array))


class OnnxKit(NumpyKit):
    """Arrays, and programs in place of models: what asks for layers has rules of its own in test_onnxruntime.py."""

    def __init__(self, name):
        pytest.importorskip("onnxruntime", reason="ONNX programs need onnxruntime (the extra `onnx`)")
        super().__init__(name)
        self.models = SimpleNamespace(Net=self.program)

    def program(self):
        onnx = pytest.importorskip("onnx", reason="writing ONNX programs needs onnx (the extra `onnx`)")
        x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
        graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
        made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
        runtime = pytest.importorskip("onnxruntime")
        return self.adapter.place(runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]))


KITS = {"torch": TorchKit, "paddle": PaddleKit, "numpy": NumpyKit, "jax": JaxKit, "onnxruntime": OnnxKit}


def _kit(name):
    if name in ("torch", "paddle"):
        pytest.importorskip(name)
    return KITS[name](name)


@pytest.fixture(params=FRAMEWORKS)
def kit(request):
    """Every framework in turn."""
    return _kit(request.param)


@pytest.fixture(params=[*FRAMEWORKS, "onnxruntime"])
def tensors(request):
    """Every framework in turn, those whose models are programs as well."""
    return _kit(request.param)


@pytest.fixture(params=LAYERED)
def trained(request):
    """Every framework that is also ``Training`` and ``Exporting``."""
    return _kit(request.param)


@pytest.fixture(scope="session")
def exercised():
    """The frameworks that the fixtures above go through."""

    def names(params):
        return {getattr(p, "values", (p,))[0] for p in params}

    return SimpleNamespace(all=names([*FRAMEWORKS, "onnxruntime"]), trained=names(LAYERED))
