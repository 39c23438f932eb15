"""Second gradients, as a gradient penalty takes them.

They are the gradient of a gradient with respect to the inputs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Dict

import numpy as np

from paralign.adapters.base import Curving
from paralign.dtypes import narrow, typed
from paralign.worker.passes.forward import attempt
from paralign.worker.protocol import Curved, Second
from paralign.worker.sides.session import DOUBLE, Session
from paralign.worker.steps.training import MODES, add_gradient, scalar_of, trainer
from paralign.worker.values.trees import leaves, mapped

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter


def second(session: Session, writer: CaptureWriter, options: Second, values: Dict[str, Capture]) -> Curved:
    """The gradient of the loss's gradient with respect to the inputs.

    It is taken along directions that are drawn.

    Recorded as ``second`` (of every floating input) and ``second_parameters`` (the norm over all parameters, whose names and layouts
    differ between the sides).
    """
    answer = Curved()
    if not isinstance(session.adapter, Curving):
        return Curved(lacking=f"the adapter of {session.adapter.name} takes no second gradients")
    for run in options.runs:
        with session.untouched():
            problem = attempt(partial(_second, session, writer, run, values), tolerate=True)
        if not problem:
            answer.runs.append(run)
        elif run == DOUBLE:
            answer.failed[run] = problem
        else:
            answer.lacking = problem
    return answer


def _second(session: Session, writer: CaptureWriter, run: str, values: Dict[str, Capture]) -> None:
    adapter, known = trainer(session), session.adapter.is_tensor
    curving: Any = session.adapter
    if run == DOUBLE:
        session.to_double()
    session.adapter.train(session.model, MODES["eval"])
    session.seed()
    inputs = mapped(session.inputs(values["inputs"], run), lambda leaf: adapter.watch(leaf) if known(leaf) else leaf)
    watched = [
        (path, leaf) for path, leaf in leaves(inputs, known) if known(leaf) and session.adapter.to_array(leaf).array.dtype.kind == "f"
    ]
    if not watched:
        raise TypeError("no input is of floating numbers")
    outputs = session.call(inputs)
    total = scalar_of(session.function("loss")(outputs, session.tree(values["labels"], "labels", run)), known)
    first = curving.slopes(total, [leaf for _, leaf in watched])
    random = np.random.RandomState(session.base_seed % 2**32)
    along = None
    for (_, leaf), slope in zip(watched, first):
        value = session.adapter.to_array(leaf)
        direction = session.adapter.from_array(narrow(random.randn(*value.array.shape), value.dtype))
        if slope is not None:
            along = (slope * direction).sum() if along is None else along + (slope * direction).sum()
    if along is None:
        raise TypeError("the loss does not depend on the inputs")
    adapter.clear_gradients(session.model, None)
    adapter.backward(along)
    for path, leaf in watched:
        add_gradient(session, writer, "second", adapter.gradient(leaf), leaf=path, run=run)
    squares = [
        np.square(np.asarray(session.adapter.to_array(g).array, np.float64)).sum()
        for g in adapter.gradients(session.model).values()
        if g is not None
    ]
    writer.add("second_parameters", typed(np.sqrt(np.float64(sum(squares)))), role="scalar", run=run)
