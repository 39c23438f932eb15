"""PyTorch's half of :class:`paralign.adapters.base.Lazy`.

Parameters lie on the meta device, buffers are as the model computes them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator

import torch


class BuildsLazily:
    """What the adapter has of it."""

    @contextmanager
    def empty(self) -> Iterator[None]:
        """Move every parameter to the meta device as it is registered.

        Buffers hold what the model computed (tables of angles).
        """
        register = torch.nn.Module.register_parameter

        def without_memory(module: Any, name: str, param: Any) -> None:
            register(module, name, param)
            kept = module._parameters.get(name)  # noqa: SLF001 - as torch.nn.utils does
            if kept is not None and kept.device.type != "meta":
                module._parameters[name] = torch.nn.Parameter(kept.to("meta"), requires_grad=kept.requires_grad)  # noqa: SLF001

        torch.nn.Module.register_parameter = without_memory
        try:
            yield
        finally:
            torch.nn.Module.register_parameter = register

    def fill(self, module: Any) -> None:
        """Give parameters memory; those that modules share stay shared."""
        made: Dict[int, Any] = {}
        for owner in module.modules():
            for name, param in owner._parameters.items():  # noqa: SLF001
                if param is not None and param.device.type == "meta":
                    if id(param) not in made:
                        made[id(param)] = torch.nn.Parameter(torch.zeros_like(param, device="cpu"), requires_grad=param.requires_grad)
                    owner._parameters[name] = made[id(param)]  # noqa: SLF001

    def drop(self, module: Any) -> None:
        """Take the memory of parameters away again."""
        for owner in module.modules():
            for name, param in owner._parameters.items():  # noqa: SLF001
                if param is not None:
                    owner._parameters[name] = torch.nn.Parameter(param.to("meta"), requires_grad=param.requires_grad)  # noqa: SLF001

    def through(self, call: Callable[..., Any]) -> Any:
        """A module whose forward is a function."""
        return _Through(call)

    def put(self, model: Any, path: str, module: Any) -> None:
        """Put another module in the place of one."""
        parent, _, name = path.rpartition(".")
        model.get_submodule(parent)._modules[name] = module  # noqa: SLF001 - setattr refuses the numbers of a list


class _Through(torch.nn.Module):  # type: ignore[misc] # PyTorch's types are not looked into
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *values: Any, **named: Any) -> Any:
        return self.call(*values, **named)
