"""Data sets, loaders and metrics.

Lengths, samples, transforms one by one, batches with the last partial one.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from paralign.errors import UsageError
from paralign.worker.datasets import loaders, whole
from paralign.worker.datasets.facts import class_names, decoders
from paralign.worker.draws.tape import Tape
from paralign.worker.protocol import Batch, BatchTaken, Data, DataSeen, Given, Nothing, Samples
from paralign.worker.values.trees import leaves, to_value

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session

#: seconds of building a loader up to which it is built once more, to ask the law of its sampler
AGAIN_SECONDS = 1.0

#: keys under which a batch that is a dict may hold its labels
LABEL_KEYS = ("labels", "label", "targets", "target", "y")


def add_leaves(session: Session, writer: CaptureWriter, name: str, value: Any, **fields: Any) -> None:
    """Record every leaf of a value; one that holds no array and no text is named in the notes."""
    from paralign.errors import UnsupportedTensor

    for path, leaf in leaves(value, session.adapter.is_tensor):
        try:
            recorded = to_value(leaf, session.adapter)
        except UnsupportedTensor as error:
            writer.note(f"{name}{'.' if path else ''}{path}: {error.what}")
            continue
        writer.add(name, recorded, leaf=path, **{"role": "sample", **fields})


# -- data ----------------------------------------------------------------------------------------------------------------------


def data(session: Session, writer: CaptureWriter, options: Data, values: Dict[str, Capture]) -> DataSeen:  # noqa: ARG001 - every task has these
    """Record what the side's data set, transforms and loader give.

    Length, first and last samples with each transform's output, all samples as fingerprints, batches from the first, and the last.
    """
    split, answer = options.split, DataSeen()
    session.seed()
    if "build_dataset" in session.functions:
        dataset = session.function("build_dataset")(split)
        answer.dataset = True
        _record_dataset(session, writer, dataset, options, answer)
    if "build_dataloader" in session.functions:
        session.seed()
        build = partial(session.function("build_dataloader"), split)
        began = time.perf_counter()
        loader = build()
        quick = time.perf_counter() - began < AGAIN_SECONDS
        answer.dataloader = True
        _record_batches(session, writer, loader, options, answer, build if quick else None)
    return answer


def _record_dataset(session: Session, writer: CaptureWriter, dataset: Any, options: Data, answer: DataSeen) -> None:
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        _record_stream(session, writer, iter(dataset), options, answer)
        return
    length = len(dataset)
    writer.add("length", np.int64(length), role="scalar")
    if length == 0:
        raise UsageError(
            f"the data set of split {options.split!r} is empty", where=session.side, hint="check the path that build_dataset reads from"
        )
    steps = _transforms(session, options.split)
    seconds, drawn = [], 0
    for index in sorted({*range(min(options.samples, length)), length - 1}):
        session.seed()
        began = time.perf_counter()
        attribute = transform_attribute(dataset)
        tape = Tape(session)
        with ExitStack() as stack:
            stack.enter_context(tape.running())
            if steps and attribute:
                answer.transforms = True
                stack.enter_context(_traced(session, writer, dataset, attribute, steps, f"sample_{index}"))
            sample = dataset[index]
        drawn += len(tape.draws)
        seconds.append(time.perf_counter() - began)
        add_leaves(session, writer, f"sample_{index}", sample)
    found = whole.read(session, dataset, min(seconds), until=options.patience, most=options.limit)
    answer.whole = found.write(writer, "samples", length)
    answer.draws = drawn
    answer.unseen = not drawn and _is_other_each_time(session, dataset)
    answer.decoders = decoders()
    answer.facts, answer.classes = found.facts.told(), class_names(dataset)


def _is_other_each_time(session: Session, dataset: Any) -> bool:
    """Whether the first sample differs from reading to reading, whatever is seeded.

    Then a generator of the program's own makes it.
    """
    read = []
    for _ in range(2):
        session.seed()
        try:
            found = leaves(dataset[0], session.adapter.is_tensor)
            read.append([_comparable(leaf, session) for _, leaf in found])
        except Exception:  # noqa: BLE001 - the user's data set, or a picture opened late, may fail in any way: then nothing is known
            return False
    return len(read[0]) != len(read[1]) or not all(map(_same, *read))


def _comparable(leaf: Any, session: Session) -> Any:
    from paralign.errors import UnsupportedTensor

    try:
        value = to_value(leaf, session.adapter)
    except UnsupportedTensor:
        return ""
    return value if isinstance(value, str) else value.array


def _same(one: Any, other: Any) -> bool:
    """Whether two texts, or two arrays bit for bit, are one."""
    if isinstance(one, str) or isinstance(other, str):
        return type(one) is type(other) and bool(one == other)
    return bool(one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes())


def _record_stream(session: Session, writer: CaptureWriter, samples: Iterator[Any], options: Data, answer: DataSeen) -> None:
    """Record the samples of a data set without an index.

    The first are recorded whole, those that follow as fingerprints.
    """
    found = whole.Fingerprints(session)
    for number, sample in zip(range(options.samples), samples):
        add_leaves(session, writer, f"sample_{number}", sample)
        found.add(number, sample)
    ended = whole.followed(found, samples, most=options.limit)
    answer.whole = found.write(writer, "samples", found.count if ended else None)
    answer.facts = found.facts.told()
    if ended:
        writer.add("length", np.int64(found.count), role="scalar")


def samples(session: Session, writer: CaptureWriter, options: Samples, values: Dict[str, Capture]) -> Nothing:  # noqa: ARG001 - every task has these
    """Some samples of the data set, or batches of the loader, whole."""
    session.seed()
    wanted = sorted(options.indices)
    if options.of == "loader":
        for number, given in zip(range(wanted[-1] + 1), session.function("build_dataloader")(options.split)):
            if number in wanted:
                add_leaves(session, writer, f"dataloader_{number}", given)
        return Nothing()
    dataset = session.function("build_dataset")(options.split)
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        for index in wanted:
            session.seed()
            add_leaves(session, writer, f"sample_{index}", dataset[index])
        return Nothing()
    for index, sample in zip(range(wanted[-1] + 1), dataset):
        if index in wanted:
            add_leaves(session, writer, f"sample_{index}", sample)
    return Nothing()


def _transforms(session: Session, split: str) -> List[Callable[[Any], Any]]:
    """The side's transforms as a list.

    A composition is taken apart by its ``transforms`` attribute.
    """
    if "transforms" not in session.functions:
        return []
    steps = session.function("transforms")(split)
    steps = getattr(steps, "transforms", steps)
    return list(steps) if isinstance(steps, (list, tuple)) else [steps]


def transform_attribute(dataset: Any) -> str:
    """The attribute by which a data set transforms its samples; '' without one.

    ``transform`` is one step or a list, ``transforms`` a list.
    """
    several = isinstance(getattr(dataset, "transforms", None), (list, tuple))
    if hasattr(dataset, "transform") and not (several and dataset.transform is None):
        return "transform"
    return "transforms" if several else ""


@contextmanager
def _traced(
    session: Session, writer: CaptureWriter, dataset: Any, attribute: str, steps: List[Callable[[Any], Any]], name: str
) -> Iterator[None]:
    """Let the data set transform a sample step by step, and record each step's output.

    Its own transforms are put back.

    Steps may take a picture, or a picture and what belongs to it, and then give as many values back.
    """
    own = getattr(dataset, attribute)

    def transform(*given: Any, **named: Any) -> Any:
        value: Any = given if len(given) != 1 else given[0]
        add_leaves(session, writer, f"{name}.raw", value, attrs={"trace": True})
        for number, step in enumerate(steps):
            several = len(given) > 1 and isinstance(value, (list, tuple)) and len(value) == len(given)
            value = step(*value, **named) if several else step(value, **named)
            add_leaves(session, writer, f"{name}.transform_{number}", value, op=step_name(step), attrs={"trace": True})
        return value

    setattr(dataset, attribute, type(own)([transform]) if type(own) in (list, tuple) else transform)
    try:
        yield
    finally:
        setattr(dataset, attribute, own)


def step_name(step: Any) -> str:
    """What a transform is called: the function's name, or the class's."""
    name = getattr(step, "__name__", None)
    return str(name or type(step).__name__)


def following(session: Session, loader: Any, split: str, most: int) -> Iterator[Tuple[int, Any, bool]]:
    """Number, batch, and whether it is the last that is looked at.

    That is the loader's last, or the one before ``most``.
    """
    previous: List[Any] = []
    number = -1
    for number, batch in enumerate(loader):
        if previous:
            yield number - 1, previous.pop(), False
        if number >= most:
            return
        previous.append(batch)
    if not previous:
        raise UsageError(
            f"the data loader of split {split!r} gave no batch",
            where=session.side,
            hint="check the data set's length, the batch size and drop_last",
        )
    yield number, previous.pop(), True


def _record_batches(
    session: Session, writer: CaptureWriter, loader: Any, options: Data, answer: DataSeen, again: "Optional[Callable[[], Any]]" = None
) -> None:
    """Record the first batches and the last whole, and all as fingerprints.

    Where the order is random, the samples that they hold are recorded too.

    ``again`` builds the loader anew; None where that takes long.
    """
    count, ended, seen = 0, False, 0
    found = whole.Fingerprints(session)
    until = options.patience if hasattr(loader, "__len__") else min(whole.ENDLESS, options.patience)
    began = time.perf_counter()
    for number, given, last in following(session, loader, options.split, options.most or sys.maxsize):
        count, ended = number + 1, last
        found.add(number, given)
        if number < options.batches:
            add_leaves(session, writer, f"dataloader_{number}", given)
        elif last:
            add_leaves(session, writer, "dataloader_last", given)
        if time.perf_counter() - began > until or count >= whole.MOST:
            break
        seen += loaders.rows_of(
            [leaf.shape[0] for _, leaf in leaves(given, session.adapter.is_tensor) if len(getattr(leaf, "shape", ())) > 0]
        )
        if options.limit and seen >= options.limit and not last:
            answer.limited = True
            break
    answer.truncated = not ended
    total = count if ended else length_of(loader)
    if total is not None and (ended or not options.most):
        writer.add("batches", np.int64(total), role="scalar")
    answer.batches = found.write(writer, "batches", total)
    answer.shuffled = _is_shuffled(session, loader, found)
    if answer.shuffled and ended:
        session.seed()
        answer.rows = whole.record_rows(session, writer, iter(loader), until=until)
    answer.settings = loaders.settings(loader)
    answer.collate = loaders.users_line_of(getattr(loader, "collate_fn", None))
    answer.epochs = loaders.record_epochs(session, writer, loader, again)


def length_of(loader: Any) -> "Optional[int]":
    """How many batches a loader says it has; None of one that does not say."""
    try:
        return len(loader)
    except TypeError:
        return None


def _is_shuffled(session: Session, loader: Any, first: whole.Fingerprints) -> bool:
    """Whether another pass, from another seed, begins with another batch.

    A loader that gives its batches once is not asked.
    """
    if hasattr(loader, "__next__"):
        return False
    session.adapter.seed(session.base_seed + 1)
    again = whole.Fingerprints(session)
    for given in loader:
        again.add(0, given)
        break
    return again.hashes(0) != first.hashes(0)


# -- batches for other stages ------------------------------------------------------------------------------------------------------


def split_batch(batch: Any) -> Tuple[Any, Any]:
    """Split a batch into inputs and labels.

    The last element of a list or tuple, or the label key of a dict, is the labels.

    Raises:
        UsageError: the batch is neither, or has no labels.
    """
    if isinstance(batch, dict):
        for key in LABEL_KEYS:
            if key in batch:
                return {k: v for k, v in batch.items() if k != key}, batch[key]
        raise UsageError(
            f"a batch with the keys {', '.join(map(str, batch))} has no labels", hint=f"name the labels one of: {', '.join(LABEL_KEYS)}"
        )
    if isinstance(batch, (list, tuple)) and len(batch) > 1:
        inputs = tuple(batch[:-1])
        return (inputs[0] if len(inputs) == 1 else inputs), batch[-1]
    raise UsageError(
        f"a batch of type {type(batch).__name__} cannot be split into inputs and labels",
        hint="let the data loader give (inputs, labels), or set [inputs] to a shape or a file",
    )


def batch(session: Session, writer: CaptureWriter, options: Batch, values: Dict[str, Capture]) -> BatchTaken:  # noqa: ARG001 - every task has these
    """One batch of the side's data loader, as ``inputs`` and ``labels``."""
    session.seed()
    loader = session.function("build_dataloader")(options.split)
    for found in islice(loader, options.number, None):
        inputs, labels = split_batch(found)
        session.save_tree(writer, "inputs", inputs, role="input")
        writer.flush()  # a shard of their own, as in `forward`: equal ones become one file
        session.save_tree(writer, "labels", labels, role="input")
        return BatchTaken(length_of(loader))
    raise UsageError(
        f"the data loader of split {options.split!r} gave no batch",
        where=session.side,
        hint="check the data set's length, the batch size and drop_last",
    )


def given(session: Session, writer: CaptureWriter, options: Given, values: Dict[str, Capture]) -> Nothing:  # noqa: ARG001 - every task has these
    """What the side's own ``inputs()`` or ``labels()`` returns."""
    session.seed()
    name = options.function
    session.save_tree(writer, name, session.function(name)(), role="input")
    return Nothing()
