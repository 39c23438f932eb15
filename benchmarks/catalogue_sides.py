"""What the expressions of the catalogue may call, on PyTorch's side and on Paddle's; for ``catalogue.py``."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

#: steps that an optimizer takes, and that a schedule is followed for
_STEPS, RATES = 5, 12


def arrays(seed: str) -> dict[str, Any]:
    """What ``setup`` may call: draws that depend on the entry's id alone."""
    random = np.random.RandomState(int(hashlib.sha256(seed.encode()).hexdigest()[:8], 16))

    def normal(*shape: int) -> np.ndarray:
        return np.asarray(random.randn(*shape), "float32")

    def softmax(x: np.ndarray) -> np.ndarray:
        powers = np.exp(x - x.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    return {
        "np": np,
        "normal": normal,
        "positive": lambda *shape: np.abs(normal(*shape)) + np.float32(0.1),
        "uniform": lambda *shape: random.rand(*shape).astype("float32"),
        "integers": lambda low, high, *shape: random.randint(low, high, shape).astype("int64"),
        "softmax": softmax,
        "shuffled": random.permutation,
    }


class Side:
    """What both frameworks' expressions may call."""

    def names(self) -> dict[str, Any]:
        """Names of the framework, and helpers of the same names on both sides."""
        helpers = (name for name in dir(self) if not name.startswith("_") and name != "names")
        return {"np": np, "math": math, **{name: getattr(self, name) for name in helpers}}

    X: Any
    _nn: Any

    def A(self, value: Any) -> np.ndarray:  # noqa: N802 - short, as it stands in hundreds of expressions
        """A tensor as an array."""
        return value.detach().cpu().numpy()

    def image(self, x: np.ndarray) -> Any:
        """An array as a picture of PIL."""
        from PIL import Image

        return Image.fromarray(x)

    def dtype(self, value: Any) -> str:
        """The dtype's name."""
        return str(self.A(value).dtype)

    def deviation(self, value: Any) -> np.ndarray:
        """The standard deviation of a drawn tensor."""
        return np.array([self.A(value).std()])

    def refused(self, call: Callable[[], Any]) -> str:
        """Whether a call raises."""
        try:
            call()
        except Exception:  # noqa: BLE001 - that it raises is what is asked
            return "refused"
        return "accepted"

    def after_forward(self, layer: Any, x: Any) -> Any:
        """A layer that has seen a batch in train mode."""
        layer.train()
        layer(x)
        return layer

    def names_of(self, layer: Any) -> list[str]:
        """Names in the state dict."""
        return sorted(layer.state_dict())

    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.RandomState(3)
        return random.randn(6).astype("float32"), np.abs(random.randn(6)).astype("float32") + np.float32(0.2)


class Torch(Side):
    """PyTorch's side."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        self.torch, self.X = torch, torch.tensor
        self.nn, self.F, self.init = torch.nn, torch.nn.functional, torch.nn.init
        self.optim, self.lr, self.linalg = torch.optim, torch.optim.lr_scheduler, torch.linalg
        self.transforms = _torchvision()

    def seed(self) -> None:
        """Start the generator anew."""
        self.torch.manual_seed(0)

    def loaded(self, layer: Any, values: dict[str, np.ndarray], *, train: bool = False) -> Any:
        """A layer with these weights, in eval mode."""
        state = dict(layer.named_parameters())
        for name, value in values.items():
            state[name].data = self.torch.tensor(np.asarray(value, "float32"))
        return layer.train(train)

    def statistics(self, call: Callable[[Any, Any], Any], width: int) -> Any:
        """The running mean after a call with fresh statistics."""
        mean, variance = self.torch.zeros(width), self.torch.ones(width)
        call(mean, variance)
        return mean

    def steps(self, make: Callable[[list[Any]], Any]) -> Any:
        """A parameter after five steps on a quadratic."""
        start, curvature = self._weights()
        parameter = self.nn.Parameter(self.X(start))
        optimizer = make([parameter])
        for _ in range(_STEPS):
            optimizer.zero_grad()
            (self.X(curvature) * parameter**2).sum().backward()
            optimizer.step()
        return parameter

    def rates(self, make: Callable[[Any], Any]) -> np.ndarray:
        """The rate at every step."""
        optimizer = self.optim.SGD([self.nn.Parameter(self.torch.zeros(1))], lr=0.1)
        schedule = make(optimizer)
        found = []
        for _ in range(RATES):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        return np.array(found)

    def plateau(self, make: Callable[[Any], Any]) -> np.ndarray:
        """The rates while nothing improves."""
        optimizer = self.optim.SGD([self.nn.Parameter(self.torch.zeros(1))], lr=0.1)
        schedule = make(optimizer)
        found = []
        for _ in range(30):
            schedule.step(1.0)
            found.append(optimizer.param_groups[0]["lr"])
        return np.array(found)

    def clipped(self, clip: Callable[[Any], Any]) -> Any:
        """A gradient after clipping."""
        start, curvature = self._weights()
        parameter = self.nn.Parameter(self.X(start))
        (self.X(curvature) * parameter).sum().backward()
        clip(parameter)
        return parameter.grad

    def gradient(self, call: Callable[[Any], Any], x: np.ndarray) -> Any:
        """The gradient of a sum with respect to an input."""
        tensor = self.X(x).requires_grad_()
        call(tensor).sum().backward()
        return tensor.grad


class Paddle(Side):
    """Paddle's side."""

    def __init__(self) -> None:
        import paddle

        self.paddle, self.X = paddle, paddle.to_tensor
        self.nn, self.F, self.init = paddle.nn, paddle.nn.functional, paddle.nn.initializer
        self.optimizer, self.lr, self.linalg = paddle.optimizer, paddle.optimizer.lr, paddle.linalg
        self.transforms = paddle.vision.transforms

    def seed(self) -> None:
        """Start the generator anew."""
        self.paddle.seed(0)

    def loaded(self, layer: Any, values: dict[str, np.ndarray], *, train: bool = False) -> Any:
        """A layer with these weights, in eval mode."""
        state = dict(layer.named_parameters())
        for name, value in values.items():
            state[name].set_value(np.asarray(value, "float32").copy())
        layer.train() if train else layer.eval()
        return layer

    def drawn(self, initializer: Any, shape: list[int]) -> Any:
        """A parameter that an initializer fills."""
        return self.paddle.create_parameter(shape, "float32", default_initializer=initializer)

    def statistics(self, call: Callable[[Any, Any], Any], width: int) -> Any:
        """The running mean after a call with fresh statistics."""
        mean, variance = self.paddle.zeros([width]), self.paddle.ones([width])
        call(mean, variance)
        return mean

    def _parameter(self, start: np.ndarray) -> Any:
        return self.drawn(self.init.Assign(start), list(start.shape))

    def steps(self, make: Callable[[list[Any]], Any]) -> Any:
        """A parameter after five steps on a quadratic."""
        start, curvature = self._weights()
        parameter = self._parameter(start)
        optimizer = make([parameter])
        for _ in range(_STEPS):
            (self.X(curvature) * parameter**2).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
        return parameter

    def by_hand(self, update: Callable[[Any, Any, dict[str, Any]], Any]) -> Any:
        """As steps, with an update written out; the dict keeps its state."""
        start, curvature = self._weights()
        parameter, state = self.X(start), {}
        for _ in range(_STEPS):
            parameter = update(parameter, 2 * self.X(curvature) * parameter, state)
        return parameter

    def rates(self, schedule: Any) -> np.ndarray:
        """The rate at every step."""
        found = []
        for _ in range(RATES):
            found.append(schedule())
            schedule.step()
        return np.array(found)

    def plateau(self, schedule: Any) -> np.ndarray:
        """The rates while nothing improves."""
        found = []
        for _ in range(30):
            schedule.step(self.X(np.array([1.0], "float32")))
            found.append(schedule())
        return np.array(found)

    def clipped(self, clip: Callable[[Any], Any]) -> Any:
        """A gradient after clipping."""
        start, curvature = self._weights()
        parameter = self._parameter(start)
        (self.X(curvature) * parameter).sum().backward()
        clip(parameter)
        return parameter.grad

    def clipped_by(self, rule: Any) -> Any:
        """A gradient after a rule for clipping."""
        start, curvature = self._weights()
        return rule([(self._parameter(start), self.X(curvature))])[0][1]

    def gradient(self, call: Callable[[Any], Any], x: np.ndarray) -> Any:
        """The gradient of a sum with respect to an input."""
        tensor = self.X(x)
        tensor.stop_gradient = False
        call(tensor).sum().backward()
        return tensor.grad


def _torchvision() -> Any:
    """torchvision.transforms, or None where it is not installed."""
    import torch

    for name in ("nms", "qnms"):  # a wheel built for another torch registers none
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    try:
        from torchvision import transforms
    except (ImportError, RuntimeError):
        return None
    return transforms
