"""Where two trainings part, the line of the candidate's training is named that makes its first wrong step wrong."""

from __future__ import annotations

import pytest

from paralign.model import ALIGNED, DIVERGED

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle, pytest.mark.usefixtures("standing_workers")]

DATA = """
import numpy as np


def rows(tensor):
    own = np.random.RandomState(3)
    x = own.normal(size=(96, 10)).astype("float32")
    y = x[:, :3].argmax(axis=1).astype("int64")
    order = np.random.permutation(96)
    return [(tensor(x[order[n:n + 16]]), tensor(y[order[n:n + 16]])) for n in range(0, 96, 16)]


def groups(model):
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    return [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
"""

REFERENCE = (
    DATA
    + """
import torch
from torch import nn


def build_model():
    return nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))


def criterion(outputs, labels):
    loss = nn.functional.cross_entropy(outputs, labels, label_smoothing=0.1)
    return loss + 0.05 * outputs.square().mean()


def train(log):
    model = log.model(build_model())
    optimizer = log.optimizer(torch.optim.SGD(groups(model), lr=0.05, momentum=0.9))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 4) * 0.5 ** (n // 7))
    for epoch in range(2):
        model.train()
        for _, (images, labels) in log.batches(rows(torch.tensor), epoch):
            loss = criterion(model(images), labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.8)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            log.step(samples=len(labels), loss=loss)
        model.eval()
"""
)

CANDIDATE = (
    DATA
    + """
import paddle
from paddle import nn


def build_model():
    return nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1D(32, momentum=0.9), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))


def factor(n):
    warm = min(1.0, (n + 1) / 4)
    return warm * 0.5 ** (n // 7)


def criterion(outputs, labels):
    target = nn.functional.label_smooth(nn.functional.one_hot(labels, 3), epsilon=0.1)
    loss = nn.functional.cross_entropy(outputs, target, soft_label=True)
    return loss + 0.05 * outputs.square().mean()


def train(log):
    model = log.model(build_model())
    schedule = paddle.optimizer.lr.LambdaDecay(0.05, factor)
    optimizer = log.optimizer(paddle.optimizer.Momentum(schedule, 0.9, groups(model)))
    for epoch in range(2):
        model.train()
        for _, (images, labels) in log.batches(rows(paddle.to_tensor), epoch):
            loss = criterion(model(images), labels)
            loss.backward()
            paddle.nn.utils.clip_grad_norm_(model.parameters(), 0.8)
            optimizer.step()
            optimizer.clear_grad()
            schedule.step()
            log.step(samples=len(labels), loss=loss)
        model.eval()
"""
)

PROJECT = """
stages = ["train"]
[reference]
framework = "torch"
module = "reference.py"
[candidate]
framework = "paddle"
module = "candidate.py"
[training]
runs = 0
cross = "never"
"""

CLIP, CLEAR, ADVANCE = (
    "            paddle.nn.utils.clip_grad_norm_(model.parameters(), 0.8)\n",
    "            optimizer.clear_grad()\n",
    "            schedule.step()\n",
)
MODE = "        model.train()\n"

#: name -> what the port has, what it has instead, what stands in the line to be named, what is said of it
FAULTS = {
    "rate": ("LambdaDecay(0.05", "LambdaDecay(0.06", "LambdaDecay(0.06", "the value comes from here: 0.06"),
    "momentum": ("(schedule, 0.9", "(schedule, 0.8", "(schedule, 0.8", "0.8; the reference has 0.9"),
    "decay": ('"weight_decay": 0.01', '"weight_decay": 0.02', '"weight_decay": 0.02', "0.02; the reference has 0.01"),
    "warm-up": ("(n + 1) / 4", "(n + 1) / 5", "(n + 1) / 5", "5; the reference has 4"),
    "later schedule": ("n // 7", "n // 8", "n // 8", "8; the reference has 7"),
    "schedule twice": (ADVANCE, 2 * ADVANCE, "schedule.step()", "3 calls of step in a step of the training, 2 in the reference's"),
    "clipping": (
        ", 0.8)\n",
        ", 0.5)\n",
        ", 0.5)",
        "from here on values differ; not all that goes in could be compared with the reference's",
    ),
    "no clipping": (CLIP, "", "optimizer.step()", "the reference calls clip_grad_norm_ "),
    "not cleared": (CLEAR, "", "optimizer.step()", "the reference calls zero_grad "),
    "smoothing": (
        "epsilon=0.1",
        "epsilon=0.2",
        "epsilon=0.2",
        "from here on values differ; not all that goes in could be compared with the reference's",
    ),
    "sum for mean": ("square().mean()", "square().sum()", "square().sum()", "all that goes in here is the reference's"),
    "train mode once": (MODE, f"        if not epoch:\n    {MODE}", "model.train()", "the reference does it once more"),
    "Nesterov": ("groups(model)))", "groups(model), use_nesterov=True))", "use_nesterov=True", "what this optimizer makes of them is not"),
    "momentum of statistics": ("momentum=0.9)", "momentum=0.1)", "momentum=0.1)", "in what layers keep, such as running statistics"),
}


#: the same with Adam and gradients of two batches for an update, bounded within the port's optimizer
STEP = """            if len(log.steps) % 2:
                optimizer.step()
                optimizer.{clear}()
                schedule.step()
"""
GATHERED = "            optimizer.step()\n            optimizer.{clear}()\n            schedule.step()\n"
GATHERING = {
    "reference": (
        REFERENCE.replace(
            "torch.optim.SGD(groups(model), lr=0.05, momentum=0.9)", "torch.optim.Adam(model.parameters(), lr=0.005, betas=(0.9, 0.98))"
        )
        .replace("loss.backward()", "(loss / 2).backward()")
        .replace("            torch.nn.utils.clip", "            if len(log.steps) % 2:\n                torch.nn.utils.clip")
        .replace(GATHERED.format(clear="zero_grad"), STEP.format(clear="zero_grad"))
    ),
    "candidate": (
        CANDIDATE.replace("LambdaDecay(0.05", "LambdaDecay(0.005")
        .replace(
            "paddle.optimizer.Momentum(schedule, 0.9, groups(model))",
            "paddle.optimizer.Adam(schedule, 0.9, 0.98, parameters=model.parameters(), grad_clip=nn.ClipGradByGlobalNorm(0.8))",
        )
        .replace("loss.backward()", "(loss / 2).backward()")
        .replace(CLIP, "")
        .replace(GATHERED.format(clear="clear_grad"), STEP.format(clear="clear_grad"))
    ),
}

#: as above, of that port
GATHERED_FAULTS = {
    "beta2 left out": (", 0.98, ", ", ", "paddle.optimizer.Adam(", "what this optimizer makes of the gradients is not"),
    "bound left out": (", grad_clip=nn.ClipGradByGlobalNorm(0.8)", "", "optimizer.step()", "the reference calls clip_grad_norm_ "),
    "not cleared": ("                optimizer.clear_grad()\n", "", "optimizer.step()", "the reference calls zero_grad "),
    "advanced each batch": (
        "                schedule.step()\n", "            schedule.step()\n", "schedule.step()", "1 calls of step in a step of the training, 0 in",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(one_folder):
    return one_folder(PROJECT)


def checked(folder, candidate, reference=REFERENCE):
    return folder.check(reference, candidate)["train"]


def test_a_right_port_is_aligned(folder):
    result = checked(folder, CANDIDATE)
    assert (result.verdict, result.divergence) == (ALIGNED, None)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_line_is_named_and_why(folder, fault):
    right, wrong, line, why = FAULTS[fault]
    assert right in CANDIDATE
    result = checked(folder, CANDIDATE.replace(right, wrong, 1))
    assert result.verdict == DIVERGED
    found = result.divergence
    assert line in (found.candidate.code or ""), (found.candidate, found.notes)
    assert why in found.notes[-1]


def test_gathered_gradients_that_one_side_bounds_within_its_optimizer_are_aligned(folder):
    result = checked(folder, GATHERING["candidate"], GATHERING["reference"])
    assert (result.verdict, result.divergence) == (ALIGNED, None)


@pytest.mark.parametrize("fault", GATHERED_FAULTS)
def test_the_line_is_named_where_gradients_are_gathered(folder, fault):
    right, wrong, line, why = GATHERED_FAULTS[fault]
    assert right in GATHERING["candidate"]
    result = checked(folder, GATHERING["candidate"].replace(right, wrong, 1), GATHERING["reference"])
    assert result.verdict == DIVERGED
    found = result.divergence
    assert line in (found.candidate.code or ""), (found.candidate, found.notes)
    assert why in found.notes[-1]


def test_a_loss_that_is_not_divided_is_named_where_gradients_are_of_another_size(folder):
    unbounded = [text.replace(CLIP.replace("paddle", name), "") for text, name in ((CANDIDATE, "paddle"), (REFERENCE, "torch"))]
    found = checked(folder, unbounded[0], unbounded[1].replace("loss.backward()", "(loss / 2).backward()")).divergence
    assert "loss.backward()" in found.candidate.code
    assert "2 times the reference's, all of them" in found.notes[-1]
