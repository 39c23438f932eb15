"""reprod_log's ``utils``; frameworks are imported when they are used.

A logger, arrays to tensors and back, lines about differences.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence, Union

import numpy as np

from paralign.compat.reprod_log.log import lines_of

Method = Union[str, Sequence[str]]


def init_logger(log_file: Optional[str] = None, name: str = "root", log_level: int = logging.DEBUG) -> logging.Logger:
    """A logger to the screen and, where one is named, to a new file whose folder is made.

    Handlers that an earlier call gave it are replaced: reprod_log adds another pair with each call, and every line comes twice then.
    """
    logger = logging.getLogger(name)
    for old in [h for h in logger.handlers if getattr(h, "of_reprod_log", False)]:
        logger.removeHandler(old)
        old.close()
    handlers: "list[logging.Handler]" = [logging.StreamHandler(stream=sys.stdout)]
    if log_file is not None:
        Path(log_file).parent.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(log_file, "w", encoding="utf-8"))
    for handler in handlers:
        handler.of_reprod_log = True  # type: ignore[attr-defined]
        handler.setFormatter(logging.Formatter("[%(asctime)s] %(name)s %(levelname)s: %(message)s", datefmt="%Y/%m/%d %H:%M:%S"))
        logger.addHandler(handler)
    logger.setLevel(log_level)
    return logger


def np2torch(data: Dict[Any, Any]) -> Dict[Any, Any]:
    """The arrays of a dict as PyTorch's tensors of their own types, other values as is.

    reprod_log makes integers float32.
    """
    return _converted(data, import_module("torch").tensor)


def np2paddle(data: Dict[Any, Any]) -> Dict[Any, Any]:
    """The arrays of a dict as Paddle's tensors, other values as they are."""
    return _converted(data, import_module("paddle").to_tensor)


def _converted(data: Dict[Any, Any], convert: Callable[[Any], Any]) -> Dict[Any, Any]:
    if not isinstance(data, dict):
        raise AssertionError(f"a dict of arrays is needed, not a {type(data).__name__}")  # noqa: TRY004 - what reprod_log raises
    return {key: convert(value) if isinstance(value, np.ndarray) else value for key, value in data.items()}


def paddle2np(data: Any = None) -> Dict[Any, Any]:
    """The tensors of a dict as arrays; of a single tensor, under the name ``output``."""
    return {key: value.numpy() for key, value in (data if isinstance(data, dict) else {"output": data}).items()}


def torch2np(data: Any) -> Dict[Any, Any]:
    """The tensors of a dict as arrays; of a single tensor, under the name ``output``."""
    return {key: value.detach().cpu().numpy() for key, value in (data if isinstance(data, dict) else {"output": data}).items()}


def check_print_diff(
    diff_dict: Dict[Any, Any],
    diff_method: Method = "mean",
    diff_threshold: float = 1e-6,
    print_func: Callable[[str], Any] = print,
    indent: str = "\t",
    level: int = 0,
) -> bool:
    """Print which differences pass, and say whether all do.

    NaN does not, nor does a dict without any.

    Args:
        diff_dict: as ``compare.compute_diff`` gives it.
        diff_method: ``mean``, ``min``, ``max``, ``all``, or several in a list.
        diff_threshold: the greatest difference that passes.
        print_func: called with each line.
        indent: what a nested line begins with.
        level: how deeply these lie within others.
    """
    lines, passed = lines_of(diff_dict, diff_method, diff_threshold, indent, level)
    for line in lines:
        print_func(line)
    return passed
