"""What one rank does: the user's data-parallel program in small, recorded.

It builds the model, has the side distribute it, trains a few steps on its own share of the data, evaluates and saves, as the user's
program does under its launcher. Only numbers are taken down here; they are judged where all ranks of both sides are known.
"""

from __future__ import annotations

import faulthandler
import hashlib
import inspect
import os
import pickle
import random
import re
import signal
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from paralign.adapters.base import Lending
from paralign.adapters.finding import load as load_adapter
from paralign.adapters.parallel import parallel
from paralign.capture import Capture
from paralign.dtypes import unboxed, widen
from paralign.errors import EnvironmentUnavailable, UsageError, plain_text
from paralign.worker.process import loader_thread, writes
from paralign.worker.protocol import Printed, RankTold
from paralign.worker.protocol.messages import DONE, RankReply, Reply
from paralign.worker.protocol.wire import encode
from paralign.worker.ranks import share
from paralign.worker.ranks.launched import LOCAL_RANKS, number, put, rank_file
from paralign.worker.sides.session import Session
from paralign.worker.sides.side import load as load_side

if TYPE_CHECKING:
    from paralign.adapters.base import Entry
    from paralign.capture import CaptureWriter
    from paralign.worker.protocol import LocalMetric
    from paralign.worker.protocol.messages import RankDescription

#: seconds before the time limit at which the stacks of a rank are written: all ranks have to be told apart from those that are killed
BEFORE = 1.5

#: seconds that a rank that is done waits for the others: one that ends may host what the others talk through
TOGETHER = 10.0

#: batches of an evaluation that are looked at rank by rank
FOLLOWED = 64


def main(description: RankDescription, rank: int, failure: Callable[[BaseException], Reply]) -> None:
    """Do the job, write down what came of it, and end this process."""
    folder = description.folder
    _watch_time(folder, rank, description.deadline)
    loader_thread.watch()
    progress = Progress(rank_file(folder, rank, "progress"))
    place = rank_file(folder, rank, "answer.json")
    try:
        _perform(description, rank, progress)
        reply = Reply(DONE)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a side's code may raise anything; it crosses the border as data
        reply = failure(error)
        sys.stderr.write(plain_text(reply.traceback))
    put(place, encode(RankReply(reply, time.time(), progress.phase)))
    faulthandler.cancel_dump_traceback_later()
    if reply.event == DONE:
        _await_others(folder, description.nproc)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0 if reply.event == DONE else 1)  # what frameworks do at exit may wait for ranks that are gone


def _watch_time(folder: str, rank: int, deadline: float) -> None:
    """Have all stacks written shortly before the time is over, and where the process crashes."""
    stacks = open(rank_file(folder, rank, "stacks"), "w", encoding="utf-8")  # noqa: SIM115 - open as long as the process lives
    faulthandler.dump_traceback_later(max(0.1, deadline - BEFORE - time.time()), file=stacks)
    _watch_crashes(folder, rank)


def _watch_crashes(folder: str, rank: int) -> None:
    """Have the stack written where the process crashes, or is told to end while it hangs.

    Paddle puts handlers of its own in place when it is imported.
    """
    fault = open(rank_file(folder, rank, "fault"), "a", encoding="utf-8")  # noqa: SIM115 - as above
    faulthandler.disable()
    faulthandler.enable(file=fault)
    stopped = open(rank_file(folder, rank, "stacks"), "a", encoding="utf-8")  # noqa: SIM115 - as above
    faulthandler.unregister(signal.SIGTERM)  # else it would take its handler for still in place
    faulthandler.register(signal.SIGTERM, file=stopped, chain=True)


def _await_others(folder: str, nproc: int) -> None:
    until = time.monotonic() + TOGETHER
    while time.monotonic() < until:
        if all(os.path.exists(rank_file(folder, other, "answer.json")) for other in range(nproc)):
            return
        time.sleep(0.02)


class Progress:
    """What a rank is at, in a file that is read where it does not come to an end."""

    def __init__(self, path: str) -> None:
        self._path, self.phase = path, ""

    def say(self, phase: str) -> None:
        """Begin something."""
        self.phase = phase
        with open(self._path, "w", encoding="utf-8") as file:
            file.write(phase)


class _Generators:
    """Whether the user's program seeds its ranks alike.

    They start from states that differ, and the states afterwards tell.
    """

    def __init__(self, adapter: Any, seed: int, rank: int) -> None:
        self._adapter = adapter
        adapter.seed((seed + 1 + rank) % 2**32)

    def states(self) -> Dict[str, str]:
        """What the states of the generators are known by."""
        found: Dict[str, Any] = {"random": random.getstate(), "numpy": np.random.get_state(legacy=True)}  # noqa: NPY002 - what programs seed is the global generator
        if isinstance(self._adapter, Lending):
            state = self._adapter.process_state()
            if state is not None:
                found["framework"] = state["cpu"]
        return {name: hashlib.sha256(pickle.dumps(_plain(state))).hexdigest()[:16] for name, state in found.items()}

    def states_after(self, draw: Callable[[], None]) -> Dict[str, str]:
        """What the states would be known by after a draw, which is taken back."""
        kept = self._adapter.process_state()
        draw()
        try:
            return self.states()
        finally:
            self._adapter.put_process_state(kept)


#: where an object lies, which Paddle's generators tell beside their numbers
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def _plain(state: Any) -> Any:
    """A generator's state as bytes.

    A tensor as its array, an object of a framework's as its text, without the addresses in it: those are each process's own.
    """
    if hasattr(state, "numpy"):
        return state.numpy().tobytes()
    if isinstance(state, (tuple, list)):
        return [_plain(each) for each in state]
    return state.tobytes() if isinstance(state, np.ndarray) else _ADDRESS.sub("", str(state))


def _device(description: RankDescription) -> str:
    """The device of this process: the CPU, or the card of its number on this machine."""
    device = str(description.device).replace("cuda", "gpu")
    if device == "cpu":
        return device
    return f"{device.split(':', maxsplit=1)[0]}:{number(LOCAL_RANKS) or 0}"


def _rehearse(description: RankDescription, rank: int, progress: Progress) -> None:
    """Talk to the other processes without the user's program: the sum of what each has.

    Raises:
        UsageError: the framework has nothing for that, or the sum is wrong.
    """
    progress.say("import of the framework")
    helper, device = parallel(description.framework), _device(description)
    if helper is None:
        raise UsageError(f"framework {description.framework!r} has no way of its own for processes to talk")
    progress.say("joining the group of processes")
    helper.join(device)
    progress.say("a sum over the processes")
    found = helper.total(np.full(4, rank + 1.0, np.float32), device)
    wanted = description.nproc * (description.nproc + 1) / 2
    if not np.all(found == wanted):
        raise UsageError(f"the sum of 1 to {description.nproc} over the processes is {found.tolist()}, not {wanted:g}")


def _perform(description: RankDescription, rank: int, progress: Progress) -> None:
    if description.options.rehearsal:
        _rehearse(description, rank, progress)
        return
    opened = writes.Writes(description.ignore)
    printed = writes.watch_prints(opened.is_users)
    progress.say("import of the framework and of the side's module")
    adapter = load_adapter(description.framework)
    generators = _Generators(adapter, description.seed, rank)
    functions = load_side(description.module, description.root)
    device = _device(description)
    if device not in adapter.devices():
        raise EnvironmentUnavailable(
            f"process {rank} of {description.nproc} needs a device of its own, and this machine has no {device}",
            hint="set [distributed] nproc to the number of devices at most, or device = 'cpu' for this side",
        )
    helper = parallel(description.framework)
    if helper is not None and device == "cpu":
        helper.synchronise_on_cpu()
    session = Session(description.side, functions, description.framework, device, description.seed)
    _watch_crashes(description.folder, rank)
    job = _Rank(session, description, rank, progress)
    with session.capture(description.captures.format(rank=rank), "distributed", {}) as writer:
        answer = job.run(writer, generators)
        opened.on = False
        saving = os.path.realpath(job.saving) + os.sep
        answer.places = {name: place for name in functions if (place := _place(functions[name]))}
        answer.writes = {path: line for path, line in opened.seen.items() if not path.startswith(saving)}
        answer.saved = None if answer.saved is None else {n: opened.seen.get(saving + n, "") for n in answer.saved}
        answer.printed = Printed(sum(each.count for each in printed), [line for each in printed for line in each.lines])
        writer.manifest.settings["answer"] = encode(answer)


#: attributes in which random layers keep how likely they drop something
_PROBABILITIES = ("p", "drop_prob", "drop_rate")


def _is_never(layer: Any) -> bool:
    """Whether a random layer drops with probability zero: no draw changes a result."""
    held = [getattr(layer, name, None) for name in _PROBABILITIES]
    known = [value for value in held if isinstance(value, (int, float))]
    return bool(known) and not any(known)


def _place(function: Any) -> str:
    """``file:line`` where a function is defined; '' where that is not known."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


class _Rank:
    """The job of one rank."""

    def __init__(self, session: Session, description: RankDescription, rank: int, progress: Progress) -> None:
        self.session, self.rank, self.progress = session, rank, progress
        self.options, self.description = description.options, description
        self.functions = session.functions
        self.saving = os.path.join(description.saving, str(rank))
        self.began: Dict[str, str] = {}

    def run(self, writer: "CaptureWriter", generators: _Generators) -> RankTold:
        """All of it; files and what was printed are told afterwards."""
        session = self.session
        self.progress.say("build_model()")
        plain = session.adopt(self.functions["build_model"]())
        self.progress.say("distribute(model)")
        model = self.functions["distribute"](plain) if "distribute" in self.functions else plain
        model = plain if model is None else model
        if not session.adapter.is_model(model):
            raise UsageError(
                f"distribute(model) returned a {type(model).__name__}, which is no {session.adapter.name} model",
                where=session.side,
                hint="return the model, or what wraps it (DistributedDataParallel, DataParallel)",
            )
        self._names(plain, model)
        start = self._digests(model)
        self._load(model)
        state = self._values(model)
        kept = plain if self._is_same(plain, model) else model
        layers = self._layers(model)
        _watch_crashes(self.description.folder, self.rank)  # joining a group has put other handlers in place
        self.progress.say("build_optimizer(model)")
        random_layers = self._quieted(model)
        built, scheduler = share.optimizer(session, kept)
        rates = share.rates(session, built)
        self.progress.say(f"build_dataloader({self.options.split!r})")
        self.began = generators.states()
        loader = session.function("build_dataloader")(self.options.split)
        states = generators.states()
        losses, replicas, sizes = self._train(writer, model, built, scheduler, loader, state, generators)
        drawn = self._drawn(loader, generators.states(), random_layers)
        self.progress.say("the samples of one epoch")
        samples = share.share(session, loader)
        self._load(model)
        metrics, local = self._evaluate(writer, model)
        saved = self._save(model)
        return RankTold(
            type(model).__name__,
            start=start,
            layers=layers,
            rates=rates,
            generators=states,
            drawn=drawn,
            losses=losses,
            replicas=replicas,
            sizes=sizes,
            share=samples,
            metrics=metrics,
            local=local,
            saved=None if saved is None else dict.fromkeys(saved, ""),
            places={},
            writes={},
            printed=Printed(0, []),
        )

    # -- the model ---------------------------------------------------------------------------------------------------------

    def _names(self, plain: Any, model: Any) -> None:
        """Find by what prefix the tensors of the distributed model differ in name.

        Raises:
            UsageError: there is none.
        """
        own = [e.name for e in self.session.entries(plain)]
        there = {e.name for e in self.session.entries(model)}
        prefixes = ["", *(name[: -len(own[0])] for name in sorted(there) if own and name.endswith(own[0]))]
        fitting = [prefix for prefix in prefixes if all(prefix + name in there for name in own)]
        if not fitting:
            raise UsageError(
                f"the tensors of what distribute(model) returned are called otherwise than the model's ({own[0] if own else 'none'})",
                where=self.session.side,
                hint="return the model, or what wraps it whole (DistributedDataParallel, DataParallel)",
            )
        self.prefix = fitting[0]

    def _entries(self, model: Any) -> "Iterator[Tuple[str, Entry]]":
        """Names without the prefix, and entries, aliases left out."""
        for entry in self.session.entries(model):
            if entry.shared is None and entry.name.startswith(self.prefix):
                yield entry.name[len(self.prefix) :], entry

    def _is_same(self, plain: Any, model: Any) -> bool:
        held = {id(e.tensor) for _, e in self._entries(model)}
        return all(id(e.tensor) in held for e in self.session.entries(plain) if e.role == "parameter")

    def _digests(self, model: Any) -> Dict[str, str]:
        return {name: share.digest(self.session.adapter.to_array(e.tensor)) for name, e in self._entries(model)}

    def _values(self, model: Any) -> Dict[str, Any]:
        adapter = self.session.adapter
        return {n: np.array(widen(adapter.to_array(e.tensor)), np.float64) for n, e in self._entries(model) if e.role == "parameter"}

    def _load(self, model: Any) -> None:
        """Give the model the weights that the check carries over."""
        given = Capture.open(self.description.weights)
        names = {name: entry.name for name, entry in self._entries(model)}
        values = {names[r.name]: given.value(r) for r in given.records if r.location is not None and r.name in names}
        self.session.adapter.load_state(model, values)

    def _layers(self, model: Any) -> Dict[str, str]:
        """The normalisation layers: path -> class."""
        adapter = self.session.adapter
        found = {path[len(self.prefix) :]: type(module).__name__ for path, module in adapter.modules(model)}
        return {path: kind for path, kind in found.items() if "batchnorm" in kind.lower()}

    def _quieted(self, model: Any) -> bool:
        """Put a model into quiet mode; whether that keeps layers from drawing random numbers."""
        adapter = self.session.adapter
        adapter.train(model, "train")
        layers = [module for _, module in adapter.modules(model)]
        training = [layer for layer in layers if getattr(layer, "training", None) is True]
        drops = any(isinstance(getattr(each, "dropout", None), float) and each.dropout > 0 for each in training)
        adapter.train(model, "quiet")
        return drops or any(layer.training is False and not _is_never(layer) for layer in training)

    def _opened(self, loader: Any, generators: _Generators) -> "Iterator[Any]":
        """Begin an epoch.

        The one number that the framework's own loader draws by itself, a seed for workers, is set aside.
        """
        helper = parallel(self.session.adapter.name)
        draw = None if helper is None else helper.draw_of_loader(loader)
        if draw is None or generators.states().get("framework") != self.began.get("framework"):
            return iter(loader)
        alone = generators.states_after(draw)["framework"]
        batches: "Iterator[Any]" = iter(loader)
        if generators.states()["framework"] == alone:
            self.began["framework"] = alone
        return batches

    def _drawn(self, loader: Any, states: Dict[str, str], random_layers: bool) -> List[str]:
        """The generators that something drew from since the loader was built, or may draw from.

        Workers draw in processes of their own, where nobody sees it; on a card the framework draws from its generator there, whose state
        is not read.
        """
        workers = unboxed(getattr(loader, "num_workers", 0))
        if isinstance(workers, int) and workers > 0:
            return list(states)
        found = [name for name, state in states.items() if self.began.get(name) != state]
        unseen = random_layers or self.session.device != "cpu"
        return [*found, "framework"] if unseen and "framework" in states and "framework" not in found else found

    # -- training ----------------------------------------------------------------------------------------------------------

    def _train(
        self, writer: "CaptureWriter", model: Any, built: Any, scheduler: Any, loader: Any, state: Dict[str, Any], generators: _Generators
    ) -> Tuple[List[Optional[float]], List[Dict[str, str]], List[Optional[int]]]:
        """Take some steps on this rank's share.

        Every tensor of the first is recorded, of the others what it is known by.
        """
        losses: List[Optional[float]] = []
        replicas: List[Dict[str, str]] = []
        sizes: List[Optional[int]] = []
        batches = self._opened(loader, generators)
        for number_ in range(self.options.steps):
            self.progress.say(f"step {number_}: the next batch")
            try:
                batch = next(batches)
            except StopIteration:
                break
            sizes.append(share.size_of(self.session, batch))
            if number_ == 0:
                self.session.save_tree(writer, "batch", batch, role="input", rank=self.rank)
                writer.manifest.settings["key"] = (
                    f"{self.rank} {share.contents(self.session, batch)}"  # what is computed from it depends on
                )
            self.progress.say(f"step {number_}: forward, backward and update")
            stepped = share.step(self.session, model, built, scheduler, batch)
            losses.append(share.loss_of(self.session, stepped.result))
            if number_ == 0:
                self._record(writer, model, stepped, state)
            replicas.append(self._digests(model))
        if not losses:
            raise UsageError(
                f"the data loader of split {self.options.split!r} gave rank {self.rank} no batch",
                where=self.session.side,
                hint="check the data set's length, the batch size and drop_last",
            )
        return losses, replicas, sizes

    def _record(self, writer: "CaptureWriter", model: Any, stepped: share.Stepped, state: Dict[str, Any]) -> None:
        stepped.record(writer, self.prefix, rank=self.rank)
        for name, entry in self._entries(model):
            value = self.session.adapter.to_array(entry.tensor)
            if entry.role == "parameter":
                writer.add(name, widen(value).astype(np.float64) - state[name], role="parameter", rank=self.rank)
            else:
                writer.add(name, value, role="buffer", rank=self.rank)

    # -- evaluating and saving ---------------------------------------------------------------------------------------------

    def _evaluate(self, writer: "CaptureWriter", model: Any) -> "Tuple[Optional[Dict[str, float]], Optional[LocalMetric]]":
        """What the side's own evaluation gives here, and what this rank's share alone gives."""
        if "evaluate" not in self.functions:
            return None, None
        self.progress.say("evaluate(model)")
        self.session.adapter.train(model, "eval")
        with self.session.passing():
            found = share.numbers(self.session, self.functions["evaluate"](model))
        self.progress.say("the metric of this rank's share alone")
        keep = partial(share.keep_evaluated, self.session, writer, self.rank)
        return found, share.local_metric(self.session, model, self.options.evaluation, FOLLOWED, keep)

    def _save(self, model: Any) -> Optional[Dict[str, int]]:
        """Note the files that the side's own ``save`` writes in this rank.

        Each rank is given a folder of its own.
        """
        if "save" not in self.functions:
            return None
        self.progress.say("save(model, folder)")
        if os.path.isdir(self.saving):
            writes.forget_files(self.saving)
        os.mkdir(self.saving)
        try:
            self.functions["save"](model, self.saving)
            return writes.files_below(self.saving)
        finally:
            writes.forget_files(self.saving)
