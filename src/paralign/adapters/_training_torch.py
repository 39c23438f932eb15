"""How PyTorch trains: gradients, optimizers, schedules."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, List, Sequence, Set

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from paralign.errors import UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class Trains:
    """What the adapter has of it."""

    def parameters(self, model: Any) -> List[Any]:
        """As ``model.parameters()``."""
        return list(model.parameters())

    def watch(self, tensor: Any) -> Any:
        """A leaf of its own memory that requires a gradient."""
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        return tensor.detach().clone().requires_grad_()

    def slopes(self, total: Any, leaves: Sequence[Any]) -> List[Any]:
        """``torch.autograd.grad`` with a graph."""
        return list(torch.autograd.grad(total, list(leaves), create_graph=True, allow_unused=True))

    def gradient(self, tensor: Any) -> Any:
        """``tensor.grad``."""
        return tensor.grad

    def row_parameters(self, model: Any) -> Set[int]:
        """Weights of embeddings that were built with ``sparse=True``."""
        kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
        return {id(layer.weight) for layer in model.modules() if isinstance(layer, kinds) and layer.sparse}

    def lay_rows(self, parameter: Any, gradient: Any) -> None:
        """A sparse tensor of coordinates."""
        rows = gradient.flatten(1).abs().sum(1).nonzero()[:, 0]
        parameter.grad = torch.sparse_coo_tensor(rows[None], gradient[rows], gradient.shape, check_invariants=False)

    def backward(self, loss: Any) -> None:
        """``loss.backward()``.

        Raises:
            UsageError: the loss has more than one element.
        """
        if loss.numel() != 1:
            raise UsageError(
                f"a backward pass starts from a scalar, the loss has shape {list(loss.shape)}", where="loss", hint="take its mean or sum"
            )
        loss.backward()

    def clear_gradients(self, model: Any, optimizer: Any) -> None:
        """Set gradients of the model and of the optimizer's parameters to None.

        Either may be None.
        """
        if model is not None:
            model.zero_grad(set_to_none=True)
        if isinstance(optimizer, torch.optim.Optimizer):
            optimizer.zero_grad(set_to_none=True)
        elif hasattr(optimizer, "zero_grad"):  # one that the user wrote from scratch
            optimizer.zero_grad()

    def step(self, optimizer: Any) -> None:
        """``optimizer.step()``."""
        optimizer.step()

    def store(self, value: Any, path: str) -> None:
        """``torch.save``."""
        torch.save(value, path)

    def numbered_anew(self) -> AbstractContextManager[None]:
        """Nothing: PyTorch numbers nothing across a process."""
        return nullcontext()

    def learning_rates(self, optimizer: Any) -> List[float]:
        """One a parameter group; none of an optimizer that keeps them elsewhere.

        That is judged by what it does to the parameters.
        """
        groups = getattr(optimizer, "param_groups", None) or []
        return [float(group["lr"]) for group in groups if "lr" in group]

    def step_scheduler(self, optimizer: Any, scheduler: Any) -> None:  # noqa: ARG002 - PyTorch's schedulers hold their optimizer
        """Call ``scheduler.step()``, without the warning that no update came before it.

        A schedule may be walked on its own.

        Raises:
            UsageError: the schedule depends on a metric.
        """
        if scheduler is None:
            return
        if isinstance(scheduler, ReduceLROnPlateau):
            raise UsageError(
                "ReduceLROnPlateau cannot be advanced without a metric",
                where="build_scheduler",
                hint="leave this scheduler out, or compare the learning rates of training logs",
            )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"Detected call of `lr_scheduler\.step\(\)` before")
            scheduler.step()
