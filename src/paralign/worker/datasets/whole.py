"""All samples of a data set, as fingerprints.

They tell whether two samples are equal, and about how far apart they are.

A fingerprint has a hash of the values, whatever their element type, and figures: the first element, the norm, and a short sketch
(:mod:`paralign.capture.sketch`) folded to ``BINS`` numbers, from which the distance of two tensors follows within a fifth.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from paralign.capture.sketch import SIZE, sketch
from paralign.dtypes import widen
from paralign.errors import UnsupportedTensor
from paralign.worker.datasets.facts import Facts
from paralign.worker.protocol import ReadThrough, Rows
from paralign.worker.values.trees import leaves, to_value

if TYPE_CHECKING:
    from paralign.capture import CaptureWriter
    from paralign.dtypes import Typed
    from paralign.worker.sides.session import Session

#: seconds that reading a data set, or a loader, may take: what a user waits for
PATIENCE = 60.0

#: the same for a data set of unknown length, which may have no end
ENDLESS = 10.0

#: samples whose fingerprints are kept: 32 MB a leaf
MOST = 200_000

#: samples that may raise before no more are read
FAILURES = 20

#: numbers of a folded sketch; the estimate of a distance has a standard error of 18 %
BINS = 16

#: the greatest whole number of eight bytes with a sign
MAX_INT64 = 2**63 - 1

#: which bin of a sketch goes where
_FOLD = np.arange(SIZE) % BINS


def order(length: int, seconds: float, until: float = PATIENCE) -> "Iterable[int]":
    """In which order samples are read, on both sides alike.

    From the first where all can be, else spread over the whole set.

    Args:
        length: of the data set.
        seconds: what one sample takes.
        until: seconds that reading may take.
    """
    if length <= MOST and length * seconds <= until:
        return range(length)
    return (int(index) for index in np.random.RandomState(0).permutation(length)[:MOST])


class Fingerprints:
    """The fingerprints of samples or batches, leaf by leaf."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._numbers: Dict[str, List[Tuple[int, int, int]]] = defaultdict(list)
        self._figures: Dict[str, List[Any]] = defaultdict(list)
        self._dtypes: Dict[str, str] = {}
        self.count = 0
        self.failed: Dict[str, str] = {}
        self.facts = Facts()

    def add(self, index: int, sample: Any) -> None:
        """Take in one sample; leaves that hold no array and no text are left out."""
        self.count += 1
        for path, leaf in leaves(sample, self._session.adapter.is_tensor):
            try:
                value = to_value(leaf, self._session.adapter)
            except UnsupportedTensor:
                continue
            own, form, figures = fingerprint(value)
            self._numbers[path].append((index, own, form))
            self._figures[path].append(figures)
            self._dtypes.setdefault(path, "str" if isinstance(value, str) else value.dtype)
            self.facts.add(path, value)

    def hashes(self, index: int) -> Dict[str, Tuple[int, int]]:
        """Hash and form of every leaf of one sample."""
        return {path: known[1:] for path, numbers in self._numbers.items() for known in numbers if known[0] == index}

    def failing(self, index: int, error: BaseException) -> None:
        """Remember that a sample could not be read."""
        self.count += 1
        self.failed[str(index)] = f"{type(error).__name__}: {error}"

    def write(self, writer: CaptureWriter, name: str, total: Optional[int]) -> ReadThrough:
        """Record the fingerprints of every leaf; ``total``: how many samples there are.

        ``<name>.numbers`` (index, hash, hash of the form) and ``<name>.figures``.
        """
        for path, numbers in self._numbers.items():
            writer.add(f"{name}.numbers", np.array(numbers, np.int64), leaf=path, role="state", attrs={"dtype": self._dtypes[path]})
            writer.add(f"{name}.figures", np.array(self._figures[path], np.float64), leaf=path, role="state")
        return ReadThrough(self.count, self.failed, total)


def fingerprint(value: Any) -> Tuple[int, int, Any]:
    """Hash of the values, hash of the form, and figures.

    The form is the shape without axes of length 1, and the places that are not finite.

    ``value`` is a text or a :class:`~paralign.dtypes.Typed`.
    """
    if isinstance(value, str):
        return _hash(value.encode("utf-8", "surrogatepass")), 0, np.zeros(BINS + 2)
    plain = canonical(value)
    kind = plain.dtype.kind
    form = repr(tuple(length for length in plain.shape if length != 1)).encode()
    if plain.dtype == np.uint64:
        form += b"u"  # beyond int64, whose negative numbers have the same bytes
    finite = plain
    if kind in "fc" and not np.isfinite(plain).all():
        places = np.isnan(plain) * 1 + np.isposinf(plain.real) * 2 + np.isneginf(plain.real) * 4
        form += places.astype(np.uint8).tobytes()
        finite = np.where(np.isfinite(plain), plain, 0).astype(plain.dtype)
    figures = np.zeros(BINS + 2)
    if plain.size:
        with np.errstate(all="ignore"):
            figures[0] = float(finite.reshape(-1)[0].real)
            figures[1] = _norm(finite)
        figures[2:] = np.bincount(_FOLD, weights=sketch(value).astype(np.float64), minlength=BINS)
    return _hash(np.ascontiguousarray(plain)), zlib.crc32(form), figures


def canonical(value: Typed) -> Any:
    """The values in the narrowest of few types that holds them.

    Equal values have equal bytes, whatever type they came in.

    Whole numbers become uint8, int64 or uint64, floating ones float32 or float64.
    """
    wide = widen(value)
    kind = wide.dtype.kind
    if wide.dtype.name in ("uint8", "float32"):
        return wide
    if kind == "c":
        return wide.astype(np.complex128)
    if kind == "f":
        with np.errstate(all="ignore"):
            narrow = wide.astype(np.float32)
            return narrow if np.array_equal(narrow, wide, equal_nan=True) else wide.astype(np.float64)
    if kind in "iub":
        small = wide.size > 0 and wide.min() >= 0 and wide.max() < 256  # noqa: PLR2004 - what a byte holds
        return wide.astype(np.uint8 if small else np.uint64 if kind == "u" and wide.size and wide.max() > MAX_INT64 else np.int64)
    return wide.astype(np.int64)


def _norm(finite: Any) -> float:
    """The root of the sum of squares, in float32 where that does not overflow.

    It scales tolerances, no more.
    """
    flat = finite.reshape(-1)
    if flat.dtype == np.float32:
        square = float(np.dot(flat, flat))
        if 1e-30 < square < 1e30:  # noqa: PLR2004 - far from what float32 can hold
            return float(np.sqrt(square))
    if flat.dtype.kind in "iub":
        flat = flat.astype(np.float64)
    return float(np.sqrt(np.square(np.abs(flat.astype(np.complex128 if flat.dtype.kind == "c" else np.float64))).sum()))


def _hash(data: Any) -> int:
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big", signed=True)  # of processors' own instructions, 2 to 3 times blake2b


def read(session: Session, dataset: Any, seconds: float, *, until: float = PATIENCE, most: Optional[int] = None) -> Fingerprints:
    """Fingerprint a data set with an index, as many samples as time allows.

    Every sample is read with the same seed.

    Args:
        session: of the side.
        dataset: with ``__len__`` and ``__getitem__``.
        seconds: what one sample takes, about.
        until: seconds that reading may take.
        most: samples after which no more are read: the first ones, None for all.
    """
    found = Fingerprints(session)
    began = time.perf_counter()
    for index in order(len(dataset), seconds, until) if most is None else range(min(most, len(dataset))):
        if time.perf_counter() - began > until or len(found.failed) >= FAILURES:
            break
        session.seed()
        try:
            sample = dataset[index]
        except Exception as error:  # noqa: BLE001 - the user's data set may fail in any way; the caller compares who failed
            found.failing(index, error)
            continue
        found.add(index, sample)
    return found


class Row(NamedTuple):
    """One sample of a batch: what its leaves are called, and their fingerprints."""

    leaves: Tuple[str, ...]
    #: hash and hash of the form of each leaf
    parts: List[Tuple[int, int]]
    #: those of the leaves, one after the other
    figures: Any


def rows(session: Session, batch: Any) -> "Optional[List[Row]]":
    """Fingerprints of the samples that a batch was put together of.

    None where its arrays do not share their first axis.
    """
    values: Dict[str, Typed] = {}
    for path, leaf in leaves(batch, session.adapter.is_tensor):
        try:
            value = to_value(leaf, session.adapter)
        except UnsupportedTensor:
            return None
        if not isinstance(value, str):  # texts are told apart by what stands beside them
            values[path] = value
    arrays = [value.array for value in values.values()]
    if not arrays or any(array.ndim == 0 or len(array) != len(arrays[0]) for array in arrays):
        return None
    found = []
    for number in range(len(arrays[0])):
        each = [fingerprint(v._replace(array=v.array[number])) for v in values.values()]
        found.append(Row(tuple(values), [(own, form) for own, form, _ in each], np.concatenate([figures for _, _, figures in each])))
    return found


def record_rows(session: Session, writer: CaptureWriter, batches: Iterable[Any], *, until: float) -> Rows:
    """Record what a loader's batches hold.

    ``rows.parts`` has hashes and hashes of forms, shape ``(samples, leaves, 2)``; ``rows.figures`` the figures of all leaves.
    """
    known: List[Row] = []
    began = time.perf_counter()
    for batch in batches:
        found = rows(session, batch)
        if found is None or any(row.leaves != (known or found)[0].leaves for row in found):
            return Rows(0, ended=False, apart=False)
        known += found
        if time.perf_counter() - began > until or len(known) >= MOST:
            return Rows(len(known), ended=False, apart=True)
    names = known[0].leaves if known else ()
    parts = np.array([row.parts for row in known], np.int64).reshape(len(known), len(names), 2)
    writer.add("rows.parts", parts, role="state", attrs={"dtype": "float32", "leaves": list(names)})
    writer.add("rows.figures", np.array([row.figures for row in known], np.float64).reshape(len(known), -1), role="state")
    return Rows(len(known), ended=True, apart=True)


def followed(found: Fingerprints, samples: Iterator[Any], *, until: float = ENDLESS, most: Optional[int] = None) -> bool:
    """Take in what an iterator still gives, up to ``most`` samples in all.

    Whether it ended in time.
    """
    began = time.perf_counter()
    limit = MOST if most is None else min(most, MOST)
    for sample in samples:
        found.add(found.count, sample)
        if time.perf_counter() - began > until or found.count >= limit:
            return False
    return True
