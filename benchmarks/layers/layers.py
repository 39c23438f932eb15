"""Check every layer and loss that PyTorch and Paddle both have, each in a small model of its own: all are right ports.

python benchmarks/layers/layers.py [--only TEXT] [--group NAME] [--json ROWS.json] [--write docs/layers.md]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

warnings.filterwarnings("ignore")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from layer_pairs import INPUTS, every  # noqa: E402 - found beside this file only now

STAGES = ("weights", "forward", "loss", "backward")
PAGE = """# Layers of both frameworks

Every layer and every loss that PyTorch and Paddle both have, with variants of their arguments, checked as a port: weights, forward, loss,
and backward with updates (three steps of SGD with momentum, in eval mode and in train mode). A layer stands behind a Linear layer, so that
every case has parameters and gradients. Made by `make layers` with {versions}.

All of them are right ports: {aligned} of {count} are `aligned` in every stage. What is not is listed below, group by group.

Left out, because there Paddle 3.3 itself does otherwise, which is found: GroupNorm without weights (its gradient is off by up to 3 %),
recurrent layers without bias (it crashes), CrossEntropyLoss with an ignored label below zero (it divides by the ignored ones too),
GaussianNLLLoss with a variance that is computed (it gets no gradient), LayerNorm with an epsilon above 0.001 (it refuses).

| group | cases | weights | forward | loss | backward and update | all |
|---|---|---|---|---|---|---|
{table}
"""


def model_of(framework, base, expression, call, arrays):
    """A class of models: the layer behind a Linear layer for every floating input."""
    space = {"nn": framework.nn, "F": framework.nn.functional}
    widths = [a.shape[-1] if a.dtype.kind == "f" else 0 for a in arrays]
    code, made = compile(call, "<call>", "eval"), compile(expression, "<layer>", "eval")

    class Model(base):
        def __init__(self):
            super().__init__()
            self.first = framework.nn.Linear(widths[0], widths[0]) if widths[0] else None
            self.layer = eval(made, space)

        def forward(self, *x):
            given = (x[0] if self.first is None else self.first(x[0]), *x[1:])
            return eval(code, space, {"m": self.layer, "x": list(given)})

    return Model


def loss_of(framework, expression, call):
    """The loss of a case of its own, and a model of Linear layers under it."""
    tensor = getattr(framework, "to_tensor", None) or framework.tensor
    space = {"nn": framework.nn, "F": framework.nn.functional, "L": partial(tensor, dtype=framework.int64)}

    def loss(outputs, labels):
        values = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        made = eval(expression, {**space, "W": partial(tensor, dtype=values[0].dtype)})
        return eval(call, space, {"m": made, "x": values, "y": labels})

    return loss


def linear_of(framework, base, count):
    class Model(base):
        def __init__(self):
            super().__init__()
            self.first = framework.nn.Linear(6, 6)

        def forward(self, *x):
            return self.first(x[0]) if count == 1 else tuple(self.first(value) for value in x)

    return Model


def mean_square(outputs, labels):
    """The mean square of every floating output, added up."""
    found, todo = None, [outputs]
    while todo:
        item = todo.pop(0)
        if isinstance(item, (list, tuple)):
            todo[:0] = list(item)
        elif "float" in str(item.dtype):
            term = ((item - labels) ** 2).mean()
            found = term if found is None else found + term
    return found


def checked(case):
    """The result of one case."""
    import paddle
    import torch

    from paralign import Side, check

    arrays = INPUTS[case.inputs]
    functions, losses = [], []
    for framework, base, text, call in (
        (torch, torch.nn.Module, case.reference, case.ours),
        (paddle, paddle.nn.Layer, case.candidate, case.theirs),
    ):
        if case.labels is None:
            functions.append(model_of(framework, base, text, call, arrays))
            losses.append(mean_square)
        else:
            functions.append(linear_of(framework, base, len(arrays)))
            losses.append(loss_of(framework, text, call))
    return check(
        Side(framework="torch", functions={"build_model": functions[0]}, loss=losses[0], optimizer=_sgd(torch)),
        Side(framework="paddle", functions={"build_model": functions[1]}, loss=losses[1], optimizer=_sgd(paddle)),
        inputs=arrays if len(arrays) > 1 else arrays[0],
        labels=np.full(1, 0.5, "float32") if case.labels is None else case.labels,
        stages=list(STAGES),
    )


def _sgd(framework):
    if hasattr(framework, "optim"):
        return lambda parameters: framework.optim.SGD(parameters, lr=0.1, momentum=0.9)
    return lambda parameters: framework.optimizer.Momentum(0.1, 0.9, parameters=parameters)


def row(item):
    group, case = item
    began = time.perf_counter()
    found = {"group": group, "name": case.name, "candidate": case.candidate.removeprefix("nn."), "why": ""}
    try:
        result = checked(case)
    except Exception as error:  # noqa: BLE001 - a case that is written wrongly is a row too
        return {**found, "verdicts": {}, "why": f"{type(error).__name__}: {error}"[:300], "seconds": 0.0}
    found["verdicts"] = {stage.name: stage.verdict for stage in result.stages}
    for stage in result.stages:
        if stage.verdict != "aligned" and not found["why"]:
            found["why"] = said(stage)[:400]
    return {**found, "seconds": time.perf_counter() - began}


def said(stage):
    """Why a stage is not aligned, in short."""
    if stage.failure:
        return f"{stage.name}: {stage.failure['side']}: {stage.failure['type']}: {stage.failure['message']}"
    wrong = [pair for pair in stage.pairs if pair.verdict not in ("aligned", "not tested") and pair.judged]
    worst = f"{wrong[0].key} error÷noise {wrong[0].ratio:.3g}" if wrong and wrong[0].ratio is not None else ""
    lines = [f"{d.what} {d.candidate.op if d.candidate else ''} {'confirmed' if d.confirmed else ''}" for d in stage.divergences]
    causes, notes = "; ".join(f.cause for f in stage.findings), "; ".join(stage.notes + stage.warnings)
    return f"{stage.name}: {stage.verdict} {worst} {'; '.join(lines)} {causes} {notes}"


def page(rows, versions):
    """The rows as a page of docs."""
    lines, below = [], []
    for group in dict.fromkeys(r["group"] for r in rows):
        of = [r for r in rows if r["group"] == group]
        right = [sum(r["verdicts"].get(stage) == "aligned" for r in of) for stage in STAGES]
        lines.append(f"| {group} | {len(of)} | {' | '.join(map(str, right))} | {sum(map(aligned, of))} |")
        names = ", ".join(f"`{r['name']}`" for r in of if aligned(r))
        below.append(f"\n## {group}\n\nAligned: {names}.\n")
        below += [f"- `{r['name']}`, `{r['candidate']}`: {r['why']}\n" for r in of if not aligned(r)]
    text = PAGE.format(versions=versions, aligned=sum(map(aligned, rows)), count=len(rows), table="\n".join(lines))
    return text + "".join(below)


def aligned(found):
    return set(found["verdicts"].values()) == {"aligned"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--group", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    wanted = [(group, case) for group, cases in every().items() for case in cases if options.group in group and options.only in case.name]
    rows = []
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for found in pool.map(row, wanted, chunksize=4):
            rows.append(found)
            print(f"{'aligned' if aligned(found) else 'NOT':8} {found['name']:60} {found['seconds']:5.1f} s  {found['why']}", flush=True)
    print(Counter(aligned(r) for r in rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if options.write:
        import paddle
        import torch

        options.write.write_text(page(rows, f"PyTorch {torch.__version__} and Paddle {paddle.__version__}"), encoding="utf-8")
    return 0 if all(map(aligned, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
