"""reprod_log's ``compare``, in one process.

Two dicts of arrays, or two models and their training steps.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Callable, Dict

from paralign.compat.reprod_log.log import check_keys, differences
from paralign.compat.reprod_log.utils import Method, check_print_diff, np2paddle, np2torch, paddle2np, torch2np


def check_data(data1: Dict[Any, Any], data2: Dict[Any, Any]) -> None:
    """Check that two dicts have the same names.

    Raises:
        AssertionError: a name is found in one of them only.
    """
    check_keys(data1, data2, "")
    check_keys(data2, data1, "")


def compute_diff(data1: Dict[Any, Any], data2: Dict[Any, Any]) -> Dict[Any, Any]:
    """Mean, greatest and least absolute difference of the arrays of two dicts, by name.

    Raises:
        AssertionError, NotImplementedError, ValueError, TypeError: as :meth:`~paralign.compat.reprod_log.ReprodDiffHelper.compare_info`.
    """
    transposed: "list[str]" = []
    found = differences(data1, data2, "", transposed)
    for _ in transposed:
        sys.stdout.write("transpose sub_data1\n")
    return found


def compare_forward(
    torch_model: Any, paddle_model: Any, input_dict: Dict[Any, Any], diff_threshold: float = 1e-6, diff_method: Method = "mean"
) -> None:
    """Run both models in eval mode on the same arrays, and print how outputs differ.

    Arrays are given by keyword.
    """
    torch_model.eval()
    paddle_model.eval()
    outputs = torch2np(torch_model(**np2torch(input_dict))), paddle2np(paddle_model(**np2paddle(input_dict)))
    passed = check_print_diff(compute_diff(*outputs), diff_method, diff_threshold)
    sys.stdout.write(f"diff check {'passed' if passed else 'failed'}\n")


def compare_loss_and_backward(
    torch_model: Any,
    paddle_model: Any,
    torch_loss: Callable[[Any, Any], Any],
    paddle_loss: Callable[[Any, Any], Any],
    input_dict: Dict[Any, Any],
    lr: float = 1e-3,
    steps: int = 10,
    diff_threshold: float = 1e-6,
    diff_method: Method = "mean",
) -> None:
    """Take steps of plain gradient descent with both models; print what differs.

    In eval mode; losses and gradients are compared.

    It ends with the first step that fails. ``torch_loss`` and ``paddle_loss`` take the inputs (a dict of tensors) and the outputs, and
    return a dict with the entry ``loss``.
    """
    given = np2torch(input_dict), np2paddle(input_dict)
    torch_model.eval()
    paddle_model.eval()
    optimizers = (
        import_module("torch").optim.SGD(params=torch_model.parameters(), lr=lr),
        import_module("paddle").optimizer.SGD(parameters=paddle_model.parameters(), learning_rate=lr),
    )
    for step in range(steps):
        losses = torch_loss(given[0], torch_model(**given[0]))["loss"], paddle_loss(given[1], paddle_model(**given[1]))["loss"]
        for loss, optimizer in zip(losses, optimizers):
            loss.backward()
            optimizer.step()
        found = {"loss": losses[1].numpy()}, {"loss": losses[0].detach().cpu().numpy()}
        for name, parameter in paddle_model.named_parameters():
            if not parameter.stop_gradient and parameter.grad is not None:
                found[0][name] = parameter.grad.numpy()
        for name, parameter in torch_model.named_parameters():
            if parameter.requires_grad and parameter.grad is not None:
                found[1][name] = parameter.grad.cpu().numpy()
        passed = check_print_diff(compute_diff(*found), diff_method, diff_threshold)
        optimizers[0].zero_grad()
        optimizers[1].clear_grad()
        sys.stdout.write(f"diff check {'passed' if passed else 'failed'} in iter {step}\n")
        if not passed:
            return
    sys.stdout.write("diff check passed\n")
