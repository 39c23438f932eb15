"""A loader's settings, and the indices that its sampler draws over several epochs.

They are read off PyTorch's and Paddle's loaders alike.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from paralign.dtypes import unboxed
from paralign.worker.process.files import system_folders
from paralign.worker.protocol import EpochsDrawn
from paralign.worker.sides.frames import is_users

if TYPE_CHECKING:
    from paralign.capture import CaptureWriter
    from paralign.worker.sides.session import Session

#: epochs whose indices are drawn: two tell whether the order changes, the third whether it comes back
EPOCHS = 3

#: numbers of an epoch that a class gives its samplers to begin with; another may be a length
_FIRST = (-1, 0, 1)

#: indices of one epoch that are kept: 1.6 MB
MOST = 200_000

#: epochs that are drawn for the frequencies of single samples, of each of two loaders; seconds and indices after which no more are drawn:
#: swapping the sides of 64 epochs tells a chance below one in a million
LAW_EPOCHS, LAW_SECONDS, LAW_DRAWS = 32, 2.0, 4_000_000

#: what samplers are called whose draws do not depend on one another
INDEPENDENT = ("weighted", "random with replacement")

#: attributes in which samplers hold what each sample is drawn with
WEIGHTS = ("weights", "probabilities", "probs", "sample_weights")

#: class names of samplers -> what they do; both frameworks' own
KINDS = {
    "SequentialSampler": "sequential",
    "SequenceSampler": "sequential",
    "RandomSampler": "random",
    "SubsetRandomSampler": "random subset",
    "WeightedRandomSampler": "weighted",
    "DistributedSampler": "distributed",
    "DistributedBatchSampler": "distributed",
}

#: attributes of a loader that are told as they are, under one name for both frameworks
PLAIN = {
    "num_workers": "num_workers",
    "use_shared_memory": "use_shared_memory",
    "pin_memory": "pin_memory",
    "prefetch_factor": "prefetch_factor",
    "use_buffer_reader": "use_buffer_reader",
    "timeout": "timeout",
    "persistent_workers": "persistent_workers",
    "_persistent_workers": "persistent_workers",
}


def settings(loader: Any) -> Dict[str, str]:
    """The settings of a loader by name, as text; only those that it has.

    ``batch_size``, ``drop_last``, ``sampler`` (``sequential``, ``random``, ``random with replacement``, …, or the class's name) and
    ``shuffle`` decide about values; the others about speed and memory.
    """
    found: Dict[str, str] = {}
    batches, sampler = getattr(loader, "batch_sampler", None), sampler_of(loader)
    for name in ("batch_size", "drop_last"):
        own = getattr(loader, name, None)
        value = own if own is not None else getattr(batches, name, None)
        inner = getattr(batches, name, None)  # Paddle's loader keeps False beside a batch sampler that drops
        if isinstance(inner, (bool, int)):
            value = inner
        if isinstance(value, (bool, int)):
            found[name] = str(value)
    kind = sampler_kind(sampler)
    if kind:
        found["sampler"] = kind
        shuffled = getattr(batches if kind == "distributed" and sampler is batches else sampler, "shuffle", None)
        if isinstance(shuffled, (bool, int)):
            found["shuffle"] = str(bool(shuffled))
        elif kind in ("sequential", "random", "random with replacement"):
            found["shuffle"] = str(kind != "sequential")
    for attribute, name in PLAIN.items():
        value = unboxed(getattr(loader, attribute, None))
        if isinstance(value, (bool, int, float)):
            found[name] = str(value)
    collate = getattr(loader, "collate_fn", None)
    if callable(collate):
        found["collate_fn"] = str(getattr(collate, "__name__", type(collate).__name__))
    return found


def sampler_of(loader: Any) -> Any:
    """What decides a loader's order; None without a sampler.

    That is the loader's sampler, that of its batch sampler, or the batch sampler itself.
    """
    batches = getattr(loader, "batch_sampler", None)
    for found in (getattr(batches, "sampler", None), batches, getattr(loader, "sampler", None)):
        if found is not None and hasattr(found, "__iter__"):
            return found
    return None


def sampler_kind(sampler: Any) -> str:
    """What a sampler does, '' for none.

    One that the frameworks do not have is called by its class.
    """
    if sampler is None:
        return ""
    for base in type(sampler).__mro__:
        kind = KINDS.get(base.__name__)
        if kind is not None and (base is type(sampler) or getattr(type(sampler), "__iter__", None) is getattr(base, "__iter__", None)):
            replacing = getattr(sampler, "replacement", getattr(sampler, "_replacement", False))
            if kind == "random" and replacing is True:
                return f"{kind} with replacement"
            return kind
    return type(sampler).__name__


def record_epochs(session: Session, writer: CaptureWriter, loader: Any, again: Optional[Callable[[], Any]] = None) -> Optional[EpochsDrawn]:
    """Record the indices that the loader's sampler gives in the first epochs.

    They are ``indices`` of step 0, 1, …; None without a sampler. Where an epoch is not the whole data set, further epochs follow, as
    ``drawn`` of step 0, 1, …: the frequencies of single samples show which law the sampler follows.

    ``set_epoch`` is called as a training loop would, where there is one, or a number ``epoch`` is set. Nothing is loaded.

    Args:
        session: of the side.
        writer: takes the indices.
        loader: whose sampler is asked.
        again: builds the loader anew; None where that takes long.
    """
    batches = getattr(loader, "batch_sampler", None)
    source = batches if batches is not None and hasattr(batches, "__iter__") else sampler_of(loader)
    if source is None or not hasattr(getattr(loader, "dataset", ()), "__len__"):
        return None
    begin = _epoch_setter((batches, sampler_of(loader)))
    whole = True
    session.seed()
    first = []
    for epoch in range(EPOCHS):
        if begin is not None:
            begin(epoch)
        indices = list(_taken(_flat(source), MOST))
        whole = whole and len(indices) < MOST
        if not indices:
            return None
        first.append(np.array(indices, np.int64))
        writer.add("indices", first[-1], role="state", step=epoch)
    length = len(getattr(loader, "dataset", ()))
    _record_weights(writer, loader, length)
    found = EpochsDrawn(whole, begin is not None, length, sampler_kind(sampler_of(loader)) in INDEPENDENT)
    if whole and not _is_plain(first, length):
        with suppress(Exception):  # the user's own: what was drawn before counts
            _record_further(session, writer, (source, again), found)
    return found


def _record_weights(writer: CaptureWriter, loader: Any, length: int) -> None:
    """Record what a sampler draws each sample with, as shares of one.

    That is its attribute of such a name with a number for each sample of the data set.
    """
    for sampler in (sampler_of(loader), getattr(loader, "batch_sampler", None)):
        for name in WEIGHTS:
            held = getattr_static(sampler, name, None) if sampler is not None else None
            try:
                values = np.asarray(unboxed(getattr(sampler, name)), np.float64) if held is not None else np.zeros(0)
            except (AttributeError, RuntimeError, TypeError, ValueError):  # no numbers
                continue
            if values.shape == (length,) and np.isfinite(values).all() and (values >= 0).all() and values.sum() > 0:
                attrs = {"attribute": name, "kind": sampler_kind(sampler)}
                writer.add("weights", values / values.sum(), role="state", attrs=attrs)
                return


def _is_plain(epochs: List[Any], length: int) -> bool:
    """Whether nothing is to be learnt from more epochs.

    All are alike, or each has every sample once.
    """
    if all(len(epoch) == len(epochs[0]) and bool((epoch == epochs[0]).all()) for epoch in epochs):
        return True
    return all(len(epoch) == length == len(np.unique(epoch)) for epoch in epochs)


def _record_further(session: Session, writer: CaptureWriter, given: Tuple[Any, Optional[Callable[[], Any]]], found: EpochsDrawn) -> None:
    """Record further epochs, of this loader and of one that is built anew under another seed.

    A sampler that draws something when it is built follows another law then.
    """
    source, again = given
    until, left, step = time.perf_counter() + LAW_SECONDS, LAW_DRAWS, 0
    for half in range(2):
        session.adapter.seed(session.base_seed + half)
        if half:
            if again is None or found.further[0] < LAW_EPOCHS:
                return
            loader = again()
            batches = getattr(loader, "batch_sampler", None)
            source = batches if batches is not None and hasattr(batches, "__iter__") else sampler_of(loader)
            until = time.perf_counter() + LAW_SECONDS
        samplers = (source, getattr(source, "sampler", None))
        begin = _epoch_setter(samplers)
        found.further.append(0)
        while found.further[half] < LAW_EPOCHS and time.perf_counter() < until and left > 0:
            if begin is not None:
                begin(step)
            indices = np.array(list(_taken(_flat(source), MOST)), np.int64)
            writer.add("drawn", indices, role="state", step=step)
            left -= max(1, len(indices))
            found.further[half] += 1
            step += 1


def _epoch_setter(samplers: Tuple[Any, ...]) -> Optional[Callable[[int], Any]]:
    """What a training loop tells the number of an epoch with; None where samplers take none.

    A method ``set_epoch`` comes before a plain number ``epoch`` that the loop sets itself.
    """
    for sampler in samplers:
        if callable(getattr(sampler, "set_epoch", None)):
            return sampler.set_epoch  # type: ignore[no-any-return]
    for sampler in samplers:
        number, held = getattr_static(sampler, "epoch", None), getattr(sampler, "__dict__", None)
        if type(number) is int and held is not None and ("epoch" in held or number in _FIRST):
            return partial(setattr, sampler, "epoch")
    return None


def _flat(source: Any) -> Iterator[Any]:
    """Indices one by one, whether they come singly or in batches."""
    for given in source:
        if isinstance(given, (list, tuple, np.ndarray)):
            yield from given
        else:
            yield given


def _taken(indices: Iterator[Any], most: int) -> Iterator[int]:
    """Whole numbers of an iterator, up to so many.

    An iterator that gives something else is no sampler of indices, and ends there.
    """
    for count, index in enumerate(indices):
        if count >= most or isinstance(index, bool):
            return
        try:
            yield int(index.__index__())
        except (AttributeError, TypeError):
            return


def rows_of(sizes: List[int]) -> int:
    """How many samples a batch has, by the first axis of its leaves.

    1 where they do not share one.
    """
    if sizes and len(set(sizes)) == 1:
        return sizes[0]
    return 1


def line_of(function: Any) -> Optional[str]:
    """Where a function is defined, or what a partial or an object calls.

    None where that is not written in Python.
    """
    inner = getattr(function, "func", function)
    held: List[Any] = [inner, getattr(inner, "__func__", None), vars(type(inner)).get("__call__")]
    code = next((c for c in (getattr(each, "__code__", None) for each in held) if c is not None), None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def users_line_of(function: Any) -> Optional[str]:
    """Where a function is defined, if that is in the user's own code."""
    line = line_of(function)
    if line is not None and is_users(line.rpartition(":")[0], system_folders()):
        return line
    return None


def rebuilt(loader: Any, workers: int, batches: Optional[List[List[int]]] = None) -> Any:
    """The same loader with another number of workers.

    None where it is of no kind that says what it is made of.

    ``batches`` are the indices of the samples that it is to give, in place of what its sampler draws.
    """
    dataset, sampler = getattr(loader, "dataset", None), getattr(loader, "batch_sampler", None)
    if dataset is None or sampler is None or not hasattr(loader, "num_workers"):
        return None
    given = {
        "batch_sampler": sampler if batches is None else batches,
        "num_workers": workers,
        "collate_fn": getattr(loader, "collate_fn", None),
    }
    try:
        return type(loader)(dataset, **given)
    except Exception:  # noqa: BLE001 - TypeError of a class with other arguments, ValueError for a data set without indices, the user's own
        return None
