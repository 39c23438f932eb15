"""The task ``provenance``: what made what is written down.

The user's modules are imported again, rewritten, and run once.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional, Tuple

import numpy as np

from paralign.errors import UnsupportedTensor, message_of
from paralign.worker.datasets.feed import batches, form_of, joined, own_form
from paralign.worker.evaluation.metrics import arrays_of, as_tensors
from paralign.worker.instrumentation.fresh_imports import rewritten
from paralign.worker.instrumentation.observed import Recorder
from paralign.worker.instrumentation.value_marks import array_of, picture_of
from paralign.worker.optimization.pacing import advancing, wants_metric
from paralign.worker.optimization.schedule import schedule_of
from paralign.worker.optimization.several import as_one, rates_of
from paralign.worker.passes.forward import attempt
from paralign.worker.predictions.program import takes
from paralign.worker.protocol import Evaluate, ExpressionsTold, Provenance
from paralign.worker.provenance.composed_schedules import ruling
from paralign.worker.provenance.run import Roots, Run
from paralign.worker.provenance.whole_training import train
from paralign.worker.sides.session import NATIVE, Session, takes_nothing
from paralign.worker.steps.own_step import before_updates, kept
from paralign.worker.values.trees import leaves

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.dtypes import Typed

#: parts in which pictures are values: the way of a sample of a data set is watched step by step as it is
SEEING = ("infer", "metric")

#: the record with the bytes of one line of JSON for each site, and then for each event
EVENTS = "events"


def provenance(session: Session, writer: "CaptureWriter", options: Provenance, values: "Dict[str, Capture]") -> ExpressionsTold:
    """Run a part of the side with its own modules rewritten.

    Of ``model`` its construction, a pass in eval mode where ``inputs`` are given, and the loss where ``labels`` are. Values: for ``metric``
    ``evaluation``.
    Written: ``events``, lines of JSON, and ``numbers``, the distinct numbers of all arrays.
    """
    recorder = Recorder(partial(_value, session, pictures=options.part in SEEING))
    answer = ExpressionsTold()
    if session.is_live:
        return ExpressionsTold(failed="a program in this process cannot be imported again")
    try:
        with rewritten(session.functions, recorder) as functions:
            session.seed()
            PARTS[options.part](Run(session, recorder, functions, writer, values, options, answer.roots, answer.rates))
    except Exception as error:  # noqa: BLE001 - the user's code, imported a second time, may raise anything: then nothing is said of it
        answer.failed = f"{type(error).__name__}: {message_of(error)}"
    if not answer.roots and not recorder.events:
        return answer
    writer.add(EVENTS, np.frombuffer("\n".join(lines_of(recorder)).encode(), dtype=np.uint8), role="sample")
    writer.add("numbers", recorder.numbers.array(), role="sample")
    answer.values, answer.exhausted = len(recorder.events), recorder.exhausted
    return answer


def lines_of(recorder: Recorder) -> Iterator[str]:
    """What was recorded as lines of JSON: the sites, then the events."""
    for path, site in zip(recorder.files, recorder.sites):
        yield json.dumps({"file": path, "line": site.line, "kind": site.kind, "label": site.label})
    for event in recorder.events:
        under = {} if event.under is None else {"under": event.under}
        yield json.dumps({"site": event.site, "kind": event.kind, "inputs": event.inputs, "mark": event.mark, **under})


def _value(session: Session, value: Any, *, pictures: bool) -> "Optional[Typed]":
    """A tensor, an array or, where they are asked for, a picture as an array."""
    if session.adapter.is_tensor(value):
        try:
            return session.adapter.to_array(value)
        except UnsupportedTensor:
            return None
    found = array_of(value)
    if found is None and pictures:
        return picture_of(value)
    return found


def _construction(run: Run) -> Any:
    """The model, of the rewritten modules."""
    session, recorder = run.session, run.recorder
    session.seed()
    built, _ = recorder.run(run.functions["build_model"], {})
    model = session.adapter.place(built)
    for path, module in session.adapter.modules(model):
        run.root(f"module:{path}", recorder.made_by(module))
    for entry in session.entries(model):
        kind = "buffer" if entry.role == "buffer" or not entry.trainable else "parameter"
        run.root(f"{kind}:{entry.name}", recorder.latest_of(entry.tensor))
    return model


def _loaded(run: Run) -> Any:
    """The model with the weights of the session's."""
    model = _construction(run)
    run.session.adapter.load_state(model, run.session.snapshot())
    run.session.adapter.train(model, "eval")
    run.session.seed()
    return model


def _model(run: Run) -> None:
    """Construct the model; pass inputs where they are given, and take the loss with labels."""
    if "inputs" not in run.captures:
        _construction(run)
        return
    model = _loaded(run)
    inputs = run.session.inputs(run.captures["inputs"], NATIVE)
    listed = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    named = inputs if isinstance(inputs, dict) else {str(place): value for place, value in enumerate(listed)}
    with run.session.passing():
        outputs, made = run.recorder.run(model, named, by_name=isinstance(inputs, dict))
        run.leaves("output", made)
        if "labels" in run.captures and "loss" in run.functions:
            labels = run.session.tree(run.captures["labels"], "labels", NATIVE)
            run.leaves("loss", run.recorder.run(run.functions["loss"], {"outputs": outputs, "labels": labels})[1])


def _named(run: Run, model: Any) -> "Iterator[Tuple[str, Any]]":
    """The parameters of a model, and its modules, these with a point behind their names."""
    for path, module in run.session.adapter.modules(model):
        if path:
            yield f"{path}.", module
    for entry in run.session.entries(model):
        if entry.role == "parameter" and entry.shared is None:
            yield entry.name, entry.tensor


def _optimizer(run: Run) -> None:
    """Construct the model, the optimizer and the schedule; advance it by ``steps`` steps."""
    model = _construction(run)
    run.root("model", len(run.recorder.events) - 1)
    run.recorder.watched = {id(held): (held, name) for name, held in _named(run, model)}
    optimizer, _ = run.recorder.run(run.functions["build_optimizer"], {"model": model})
    run.root("optimizer", run.recorder.made_by(optimizer))
    given = run.recorder.run(run.functions["build_scheduler"], {"optimizer": optimizer})[0] if "build_scheduler" in run.functions else None
    for place, (number, name) in enumerate(run.recorder.sightings):
        run.root(f"sight:{place}:{name}", number)
    adapter: Any = run.session.adapter
    optimizer, given = as_one(adapter, optimizer, given)
    schedule = schedule_of(optimizer, given)
    run.root("scheduler", run.recorder.made_by(schedule))
    advance = None if schedule is None or wants_metric(schedule) else advancing(schedule, None, by_update=True)
    for number in range(run.options.steps if advance is not None else 0):
        run.root(f"step:{number}", len(run.recorder.events) - 1)
        run.rates.append(rates_of(adapter, optimizer))
        run.root(f"ruling:{number}", run.recorder.made_by(ruling(schedule, run.rates[-1])))
        if advance is not None:
            advance(number)


def _train_step(run: Run) -> None:
    """Take the side's own steps on the given batches, without dropout.

    After each, what made the named tensors is noted, and what made its result.
    """
    session, recorder = run.session, run.recorder
    model = _loaded(run)
    session.adapter.train(model, "quiet")
    optimizer, _ = recorder.run(run.functions["build_optimizer"], {"model": model})
    given = batches(session, run.captures, NATIVE)
    form = own_form(session) or form_of(run.captures)
    watched = [entry for entry in session.entries(model) if entry.name in run.options.names]
    for step in range(run.options.steps):
        run.root(f"begin:{step}", len(recorder.events))
        batch = session.fresh(joined(*given[step % len(given)], form))
        session.adapter.seed(session.base_seed + step)
        note = partial(run.gradients, model, watched if step == 0 else [])
        with kept(session, model, "quiet"), before_updates(optimizer, note):
            _, made = recorder.run(run.functions["train_step"], {"model": model, "optimizer": optimizer, "batch": batch})
        run.leaves(f"result:{step}", made)
        for entry in watched:
            run.root(f"after:{step}:{entry.name}", recorder.origin_of(entry.tensor))


def _metric_of(run: Run, number: int, outputs: Any, labels: Any) -> None:
    run.leaves(f"batch_{number}", run.recorder.run(run.functions["metric"], {"outputs": outputs, "labels": labels})[1])


def _metric(run: Run) -> None:
    """The metric of every batch of outputs and labels."""
    given = run.captures["evaluation"]
    with run.session.adapter.no_grad():
        for number in range(Evaluate.answer(given).batches):
            outputs, labels = (as_tensors(run.session, arrays_of(given, f"{name}_{number}")) for name in ("output", "labels"))
            act = partial(_metric_of, run, number, outputs, labels)
            attempt(act, tolerate=number > 0)  # a last batch may be too small for it


def _infer(run: Run) -> None:
    """Prediction from every given path, with the weights that the session's model has."""
    model = _loaded(run)
    with run.session.passing():
        for number, path in enumerate(run.options.paths):
            given = {"path": path, "model": model} if takes(run.functions["predict"], 2) else {"path": path}
            run.leaves(f"predict_{number}", run.recorder.run(run.functions["predict"], given)[1])


def _of_split(run: Run, name: str) -> Any:
    """What a function gives for the split, or without an argument where it takes none."""
    function = run.functions[name]
    return run.recorder.run(function, {} if takes_nothing(function) else {"split": run.options.split})[0]


def _dataset(run: Run) -> None:
    """One sample of the data set."""
    run.session.seed()
    dataset = _of_split(run, "build_dataset")
    run.session.seed()
    sample, known = run.recorder.run(dataset.__getitem__, {"index": run.options.number})
    _told_apart(run, sample, known)


def _loader(run: Run) -> None:
    """The batches of the loader up to the one that is asked for."""
    run.session.seed()
    loader = _of_split(run, "build_dataloader")
    for number, batch in enumerate(loader):
        if number == run.options.number:
            _told_apart(run, batch, {})
            return


def _told_apart(run: Run, value: Any, known: Roots) -> None:
    """Note what made each leaf of a sample or batch.

    As far as it was followed, else the last expression with the same elements: a list, or a data set of a library, hands out what was
    made before.
    """
    for path, leaf in leaves(value, run.session.adapter.is_tensor):
        number = known.get(path)
        if number is None or not run.recorder.files[run.recorder.events[number].site]:
            origin = run.recorder.origin_of(leaf)
            number = origin if origin is not None else number
        run.root(f"sample:{path}", number)


PARTS: Dict[str, Callable[[Run], None]] = {
    "model": _model,
    "optimizer": _optimizer,
    "metric": _metric,
    "infer": _infer,
    "train_step": _train_step,
    "train": train,
    "dataset": _dataset,
    "loader": _loader,
}
