"""The two classes of reprod_log 1.0.1, without a framework and without unpickling.

Replace the import and go on.

Files, diffs, printed lines and the log's format are the same. What differs, because it was unsafe:

* :meth:`ReprodDiffHelper.load_info` reads pickles as data (:func:`paralign.capture.load_foreign`) and runs nothing;
* a difference that is NaN never passes (NaN is not greater than any threshold, so reprod_log let it pass);
* a report that compared nothing says ``diff check failed``;
* the root logger stays as it is: each report goes to the screen once and to its own file alone.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from paralign.capture.foreign import load_foreign, save_foreign
from paralign.errors import plain_text

_METHODS = ("min", "max", "mean")
_INDENT = "\t"
Method = Union[str, Sequence[str]]


class ReprodLogger:
    """Collects arrays by name and saves them to one file."""

    def __init__(self) -> None:
        self._data: Dict[Any, Any] = {}

    @property
    def data(self) -> Dict[Any, Any]:
        """The arrays by name; the logger's own dict."""
        return self._data

    def add(self, key: Any, val: "np.ndarray[Any, Any]") -> None:
        """Keep an array under a name; an earlier one of this name is replaced.

        Raises:
            AssertionError: ``val`` is no numpy array.
        """
        if not isinstance(val, np.ndarray):
            raise AssertionError(  # noqa: TRY004 - what reprod_log raises
                f"{key!r} is a {type(val).__name__}, it must be a numpy array; "
                "PyTorch: tensor.detach().cpu().numpy(), Paddle: tensor.numpy()"
            )
        self._data[key] = val

    def remove(self, key: Any) -> None:
        """Forget an array; an unknown name is said on the screen."""
        if key in self._data:
            self._data.pop(key)
        else:
            _say(f"{key} is not in {self._data.keys()}")

    def clear(self) -> None:
        """Forget all arrays."""
        self._data.clear()

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Write the arrays to ``path`` (``.npy`` is added where it lacks), making its folder.

        Raises:
            UsageError: the file cannot be written.
        """
        save_foreign(Path(path), self._data)


class ReprodDiffHelper:
    """Compares two dicts of arrays.

    Attributes:
        diff_dict: after :meth:`compare_info`: name -> ``mean``, ``max`` and ``min`` of the absolute difference; nested as the
            compared dicts are.
    """

    diff_dict: Dict[Any, Any]

    def load_info(self, path: Union[str, "os.PathLike[str]"]) -> Any:
        """The content of a file that :class:`ReprodLogger` saved.

        Raises:
            AssertionError: there is no such file.
            UnsafeFile: it holds something other than arrays, scalars and containers; nothing of it was run.
            CaptureFormatError: it is truncated or damaged.
        """
        if not Path(path).exists():
            raise AssertionError(f"there is no file {os.fspath(path)!r}")
        content = load_foreign(Path(path))
        return content.tolist() if isinstance(content, np.ndarray) else content

    def compare_info(self, info1: Dict[Any, Any], info2: Dict[Any, Any]) -> None:
        """Compare two dicts of arrays, or of dicts of them; the result is ``diff_dict``.

        An array whose shape is the reverse of the other's is transposed first, which is said on the screen.

        Raises:
            AssertionError: one of them is no dict, or their names or the types of two values differ.
            NotImplementedError: a value is neither array nor dict.
            ValueError: two shapes cannot be subtracted, or have no elements.
            TypeError: two types cannot be subtracted (booleans).
        """
        if not all(isinstance(info, dict) for info in (info1, info2)):
            raise AssertionError("both arguments must be dicts, as load_info returns them")
        transposed: List[str] = []
        try:
            self.diff_dict = differences(info1, info2, "", transposed)
        finally:
            for _ in transposed:
                _say("transpose sub_data1")

    def report(
        self, diff_method: Method = "mean", diff_threshold: float = 1e-6, path: Optional[Union[str, "os.PathLike[str]"]] = "./diff.txt"
    ) -> None:
        """Write which differences pass to the screen and to a new file.

        Args:
            diff_method: ``mean``, ``min``, ``max``, ``all``, or several in a list.
            diff_threshold: the greatest difference that passes.
            path: the file, its folder is made; None for the screen alone.

        Raises:
            AssertionError: an unknown method.
        """
        lines, _ = _render(self.diff_dict, diff_method, diff_threshold, None)
        text = plain_text("".join(line + "\n" for line in lines))
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text, encoding="utf-8")
        sys.stdout.write(text)


def report_lines(
    reference: Dict[Any, Any],
    candidate: Dict[Any, Any],
    *,
    method: Method = "mean",
    threshold: float = 1e-6,
    now: Optional[datetime] = None,
) -> Tuple[List[str], bool]:
    r"""The lines of reprod_log's report about two dicts, and whether all differences pass.

    The dicts are of arrays.

    Nothing is printed or written. ``now`` is the time that the lines bear; the present local time unless given.

    Raises:
        AssertionError, NotImplementedError, ValueError, TypeError: as :meth:`ReprodDiffHelper.compare_info` and ``report``.

    >>> lines, passed = report_lines({"loss": np.ones(2)}, {"loss": np.ones(2)}, now=datetime(2024, 1, 31, 12, 0, 5))
    >>> lines[0], passed
    ('[2024/01/31 12:00:05] root INFO: loss: ', True)
    """
    return _render(differences(reference, candidate, "", []), method, threshold, now)


def differences(first: Dict[Any, Any], second: Dict[Any, Any], place: str, transposed: List[str]) -> Dict[Any, Any]:
    """``diff_dict`` of two dicts; places of transposed arrays are added to ``transposed``."""
    check_keys(first, second, place)
    check_keys(second, first, place)
    found: Dict[Any, Any] = {}
    for key, one in first.items():
        other, here = second[key], f"{place}{key}"
        if type(one) is not type(other):
            raise AssertionError(f"{here!r} is a {type(one).__name__} on one side and a {type(other).__name__} on the other")
        if isinstance(one, dict):
            found[key] = differences(one, other, here + ".", transposed)
        elif isinstance(one, np.ndarray):
            if one.shape != other.shape and one.T.shape == other.shape:
                transposed.append(here)
                one = one.T  # noqa: PLW2901 - from here on the other's layout counts
            found[key] = _difference(one, other, here)
        else:
            raise NotImplementedError(f"{here!r} is a {type(one).__name__}; arrays and dicts of arrays can be compared")
    return found


def check_keys(first: Dict[Any, Any], second: Dict[Any, Any], place: str) -> None:
    """Check that every name of the first dict is one of the second's.

    Raises:
        AssertionError: one is not.
    """
    missing = [key for key in first if key not in second]
    if missing:
        raise AssertionError(f"{place}{missing[0]} is found on one side only")


def _difference(one: "np.ndarray[Any, Any]", other: "np.ndarray[Any, Any]", place: str) -> Dict[str, Any]:
    try:
        with np.errstate(invalid="ignore"):  # infinity minus infinity: shows as NaN, which does not pass
            distance = np.abs(one - other)
    except ValueError as fault:
        raise ValueError(f"{place!r}: shapes {one.shape} and {other.shape} cannot be compared") from fault
    except TypeError as fault:
        raise TypeError(f"{place!r}: elements of {one.dtype} and {other.dtype} cannot be subtracted; convert them to numbers") from fault
    if not distance.size:
        raise ValueError(f"{place!r} has no elements to compare")
    return {"mean": distance.mean(), "max": distance.max(), "min": distance.min()}


def _render(differences: Dict[Any, Any], method: Method, threshold: float, now: Optional[datetime]) -> Tuple[List[str], bool]:
    lines, passed = lines_of(differences, method, threshold, _INDENT, 0)
    time = (datetime.now(timezone.utc).astimezone() if now is None else now).strftime("%Y/%m/%d %H:%M:%S")
    lines.append("diff check passed" if passed else "diff check failed")
    return [f"[{time}] root INFO: {line}" for line in lines], passed


def lines_of(differences: Dict[Any, Any], method: Method, threshold: float, indent: str, level: int) -> Tuple[List[str], bool]:
    """The lines about differences, and whether all pass; none do where there are none.

    Raises:
        AssertionError: an unknown method.
    """
    methods = _METHODS if method == "all" else ((method,) if isinstance(method, str) else tuple(method))
    for name in methods:
        if name not in ("all", *_METHODS):
            raise AssertionError(f"there is no method {name!r}; choose from all, min, max, mean")
    verdicts: List[bool] = []
    lines = list(_lines(differences, methods, threshold, indent, level, verdicts))
    return lines, bool(verdicts) and all(verdicts)


def _lines(
    differences: Dict[Any, Any], methods: Sequence[str], threshold: float, indent: str, level: int, verdicts: List[bool]
) -> Iterator[str]:
    """The lines about each name.

    The verdict of each line that has one is added to ``verdicts``.
    """
    for key, value in differences.items():
        if not _is_measured(value):
            yield f"{indent * level}{key}"
            yield from _lines(value, methods, threshold, indent, level + 1, verdicts)
            continue
        yield f"{indent * level}{key}: "
        passed = True  # of this name: as in reprod_log, a method that follows a failed one is printed as failed too
        for method in methods:
            passed = passed and bool(value[method] <= threshold)
            verdicts.append(passed)
            yield f"{indent * (level + 1)}{method} diff: check passed: {passed}, value: {value[method]}"


def _is_measured(value: Dict[Any, Any]) -> bool:
    """Whether these are the figures of one array.

    Else they are the dicts of several, which may bear the same names.
    """
    if set(value) != set(_METHODS):
        return False
    return not any(isinstance(figure, dict) for figure in value.values())


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
