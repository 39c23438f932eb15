"""Data sets and loaders: tasks and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional

from paralign.worker.protocol.task import Nothing, Task


@dataclass
class ReadThrough:
    """Samples or batches that were read.

    How many, why some failed (index -> reason), and how many there are, None for unknown.
    """

    count: int
    failed: Dict[str, str]
    total: Optional[int] = None


@dataclass
class Rows:
    """The samples of a loader's batches.

    How many, whether all batches were read, and whether they could be taken apart.
    """

    count: int
    ended: bool
    apart: bool


@dataclass
class EpochsDrawn:
    """What a sampler gave.

    Whether whole epochs, whether they can be numbered, and the data set's length. ``independent``: each draw is one of its own, as the
    frameworks' samplers with replacement make them. ``further``: how many epochs of this loader, and of one that was built anew under
    another seed, were drawn for the frequencies of single samples.
    """

    whole: bool
    set_epoch: bool
    length: int
    independent: bool = False
    further: List[int] = field(default_factory=list)


@dataclass
class DataSeen:
    """A data set and its loader.

    Args:
        dataset: whether there is one; ``dataloader``, ``transforms`` too.
        truncated: the loader was not followed to its end; ``limited``: because that was asked for.
        whole: the samples; ``batches``: those of the loader. None where there is no such thing.
        draws: random numbers that the first samples took.
        unseen: the first sample is another one when it is read again from the same seed, although nothing was seen to be drawn for it.
        decoders: libraries for videos.
        facts: leaf -> ``dtypes``, ``shapes``, ``classes`` -> numbers of samples; None without a data set.
        classes: their names, None where nobody tells.
        shuffled: whether the order is random; ``rows``: the samples of its batches then.
        settings: of the loader, as text; ``epochs``: what its sampler gives.
        collate: the user's line that defines the function which puts batches together; None where it is none of the user's.
    """

    dataset: bool = False
    dataloader: bool = False
    transforms: bool = False
    truncated: bool = False
    limited: bool = False
    whole: Optional[ReadThrough] = None
    batches: Optional[ReadThrough] = None
    draws: int = 0
    unseen: bool = False
    decoders: List[str] = field(default_factory=list)
    facts: Optional[Dict[str, Dict[str, Dict[str, int]]]] = None
    classes: Optional[List[str]] = None
    shuffled: bool = False
    rows: Optional[Rows] = None
    settings: Dict[str, str] = field(default_factory=dict)
    epochs: Optional[EpochsDrawn] = None
    collate: Optional[str] = None


@dataclass(frozen=True)
class Data(Task[DataSeen], task="data"):
    """Look at the data of a split.

    Args:
        samples: of the data set, that are recorded whole; ``batches`` of the loader.
        most: batches after which iteration stops, None: time decides.
        patience: that reading all samples, or all batches, may take.
        limit: samples that are read of the set, and of the loader; None for all.
    """

    split: str
    samples: int
    batches: int
    most: Optional[int]
    patience: float
    limit: Optional[int] = None


@dataclass(frozen=True)
class Samples(Task[Nothing], task="samples"):
    """Record some samples of the ``dataset``, or batches of the ``loader``, whole."""

    split: str
    indices: List[int]
    of: str = "dataset"


@dataclass
class Regrouped:
    """Whether the loader could be given batches of indices (``made``).

    ``random``: what it makes of them changes with the seed.
    """

    made: bool = False
    random: bool = False


@dataclass(frozen=True)
class Groups(Task[Regrouped], task="groups"):
    """Record what the split's loader makes of these samples, batch by batch.

    They take the place of those that its sampler gives.
    """

    split: str
    groups: List[List[int]]


@dataclass
class Redrawn:
    """What samples drew again.

    Sample -> how often it drew; sample -> where its draws are not those of the other side; sample -> why it cannot be read.
    """

    draws: Dict[str, int] = field(default_factory=dict)
    misfits: Dict[str, str] = field(default_factory=dict)
    failed: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Replayed(Task[Redrawn], task="replayed"):
    """Read samples with what was drawn for them, or give figures of many draws.

    ``times`` draws are made of each, within ``patience`` for all.

    With ``every``, fingerprints and draws of all samples beside them, up to ``most`` and within ``patience``.
    """

    split: str
    indices: List[int]
    times: int = 0
    patience: float = 0.0
    every: bool = False
    most: Optional[int] = None


@dataclass(frozen=True)
class Collated(Task[Redrawn], task="collated"):
    """Put given samples together by the loader's ``collate_fn``.

    What was drawn for each is put in place.
    """

    split: str
    batches: List[List[int]]


@dataclass
class SampleTraced:
    """A sample's way.

    Args:
        built: ``dataset``, ``loader`` -> the line that built it.
        exhausted: there were more steps than are kept.
        length: of the data set, None where it has none.
        batch: it is a batch of a loader without a data set.
    """

    built: Dict[str, Optional[str]]
    length: Optional[int]
    batch: bool
    exhausted: bool = False


@dataclass(frozen=True)
class Trace(Task[SampleTraced], task="trace"):
    """Trace one sample of the ``dataset`` under each seed.

    Without a data set, one batch of a ``loader``.

    ``scan``: of how many samples digests are recorded. ``draws``: the sample is drawn as by :class:`Replayed`; what is drawn is recorded,
    or, where the other side's trace is given as ``draws``, replaced by what that has drawn.
    """

    split: str
    index: int
    of: str
    seeds: List[int]
    scan: int = 0
    draws: bool = False


@dataclass
class BatchTaken:
    """``length``: how many batches the loader says it has; None of one that does not say."""

    length: Optional[int] = None


@dataclass(frozen=True)
class Batch(Task[BatchTaken], task="batch"):
    """Record the first batch of a loader, or a later one, as inputs and labels."""

    split: str
    number: int = 0


@dataclass
class Fed:
    """How many batches there were, and how inputs and labels lie in one.

    See :func:`paralign.worker.datasets.feed.joined`.
    """

    batches: int
    form: Dict[str, str]


@dataclass(frozen=True)
class Feed(Task[Fed], task="feed"):
    """Record the first batches of a loader, in order."""

    split: str
    count: int


@dataclass(frozen=True)
class Given(Task[Nothing], task="given"):
    """Record what the side's own ``inputs()`` or ``labels()`` returns."""

    function: str
