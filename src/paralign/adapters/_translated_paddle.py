"""What ``paddle.jit.to_static`` translates, with gradients.

It runs as it is written while operations are watched.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator

import paddle
from paddle.jit.dy2static import program_translator

#: functions of Paddle that build a program: of the old and of the new intermediate representation
_BUILDERS = ("from_func_spec", "pir_from_func_spec")


def translates(on: bool) -> bool:
    """Switch translation on or off; whether it was on."""
    before = bool(program_translator.ProgramTranslator().enable_to_static)
    if before != on:
        paddle.jit.enable_to_static(on)
    return before


@contextmanager
def no_grad() -> Iterator[None]:
    """``paddle.no_grad``, but programs that are built inside have gradients.

    Paddle builds a program at the first call and keeps it: of one that is built without gradients, later training steps would have none.
    """
    home = program_translator.ConcreteProgram
    before = {name: vars(home)[name] for name in _BUILDERS if isinstance(vars(home).get(name), staticmethod)}
    for name, builder in before.items():
        setattr(home, name, staticmethod(_with_gradients(builder.__func__)))
    try:
        with paddle.no_grad():
            yield
    finally:
        for name, builder in before.items():
            setattr(home, name, builder)


def _with_gradients(build: Callable[..., Any]) -> Callable[..., Any]:
    def building(*arguments: Any, **named: Any) -> Any:
        with paddle.enable_grad():
            return build(*arguments, **named)

    return building
