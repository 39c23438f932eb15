"""How Paddle trains: gradients, optimizers, schedules."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, List, Sequence, Set

import numpy as np
import paddle
from paddle.optimizer.lr import LRScheduler, ReduceOnPlateau

from paralign.adapters._tensors_paddle import NAMES
from paralign.dtypes import is_floating
from paralign.errors import UsageError


class Trains:
    """What the adapter has of it."""

    def parameters(self, model: Any) -> List[Any]:
        """All of ``model.parameters()``, running statistics included.

        Optimizers pass over what has no gradient.
        """
        return list(model.parameters())

    def watch(self, tensor: Any) -> Any:
        """A leaf of its own memory with ``stop_gradient`` False."""
        if not is_floating(NAMES.get(tensor.dtype, "")):
            return tensor
        leaf = tensor.detach().clone()
        leaf.stop_gradient = False
        return leaf

    def slopes(self, total: Any, leaves: Sequence[Any]) -> List[Any]:
        """``paddle.grad`` with a graph."""
        return list(paddle.grad(total, list(leaves), create_graph=True, allow_unused=True))

    def gradient(self, tensor: Any) -> Any:
        """``tensor.grad``."""
        return tensor.grad

    def row_parameters(self, model: Any) -> Set[int]:
        """Weights of embeddings that were built with ``sparse=True``."""
        layers = model.sublayers(include_self=True)
        return {id(layer.weight) for layer in layers if isinstance(layer, paddle.nn.Embedding) and layer._sparse}  # noqa: SLF001 - there is no public name

    def lay_rows(self, parameter: Any, gradient: Any) -> None:
        """Selected rows, which only a backward pass of a lookup makes."""
        rows = paddle.nonzero(gradient.flatten(1).abs().sum(1)).flatten()
        found = paddle.nn.functional.embedding(rows, parameter, sparse=True)
        paddle.autograd.backward([found], [paddle.gather(gradient, rows)])

    def backward(self, loss: Any) -> None:
        """``loss.backward()``.

        Raises:
            UsageError: the loss has more than one element; Paddle itself would take their sum.
        """
        if int(np.prod(loss.shape)) != 1:
            raise UsageError(
                f"a backward pass starts from a scalar, the loss has shape {list(loss.shape)}", where="loss", hint="take its mean or sum"
            )
        loss.backward()

    def clear_gradients(self, model: Any, optimizer: Any) -> None:
        """Set gradients of the model and of the optimizer's parameters to None.

        Either may be None.
        """
        if isinstance(optimizer, paddle.optimizer.Optimizer):
            optimizer.clear_grad(set_to_zero=False)
        elif hasattr(optimizer, "clear_grad"):  # one that the user wrote from scratch
            optimizer.clear_grad()
        if model is not None:
            model.clear_gradients(set_to_zero=False)

    def step(self, optimizer: Any) -> None:
        """``optimizer.step()``.

        Paddle's optimizers take the type of their learning rate from the first parameter when they are built, and fail when that
        was cast since. Before the first update it is taken again, so that an optimizer built before a cast works.
        """
        known = isinstance(optimizer, paddle.optimizer.Optimizer)
        if known and not optimizer._learning_rate_map and optimizer._parameter_list:  # noqa: SLF001 - only the constructor sets these
            first = optimizer._parameter_list[0]  # noqa: SLF001 - as above
            optimizer._dtype = (first["params"][0] if isinstance(first, dict) else first).dtype  # noqa: SLF001 - as above
        optimizer.step()

    def store(self, value: Any, path: str) -> None:
        """``paddle.save``."""
        paddle.save(value, path)

    @contextmanager
    def numbered_anew(self) -> Iterator[None]:
        """Number anew, by ``paddle.utils.unique_name.guard``.

        A second optimizer of a parameter would call what it keeps ``…_1``.
        """
        with paddle.utils.unique_name.guard():
            yield

    def learning_rates(self, optimizer: Any) -> List[float]:
        """One a parameter group: the global rate times the group's ``learning_rate``.

        The latter is a factor in Paddle.

        None of an optimizer that tells no rate (``get_lr``): it is judged by what it does to the parameters.
        """
        if not hasattr(optimizer, "get_lr"):
            return []
        told = optimizer.get_lr()
        if isinstance(told, (list, tuple, dict)):  # an object of the user's own around several optimizers
            rates = list(told.values()) if isinstance(told, dict) else list(told)
            return [float(rate) for rate in rates if isinstance(rate, (int, float))]
        rate = float(told)
        groups = getattr(optimizer, "_param_groups", None) or []
        if groups and isinstance(groups[0], dict):
            return [rate * float(group.get("learning_rate", 1.0)) for group in groups]
        return [rate]

    def step_scheduler(self, optimizer: Any, scheduler: Any) -> None:
        """``scheduler.step()``, of the one given or of the one inside the optimizer.

        Raises:
            UsageError: the schedule depends on a metric.
        """
        inside = getattr(optimizer, "_learning_rate", None)
        scheduler = inside if scheduler is None and isinstance(inside, LRScheduler) else scheduler
        if scheduler is None:
            return
        if isinstance(scheduler, ReduceOnPlateau):
            raise UsageError(
                "ReduceOnPlateau cannot be advanced without a metric",
                where="build_scheduler",
                hint="leave this scheduler out, or compare the learning rates of training logs",
            )
        scheduler.step()
