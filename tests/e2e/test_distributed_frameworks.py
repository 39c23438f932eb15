"""PyTorch and Paddle under their own launchers: the page's example is aligned, a rank that fails is named with its own frames."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from paralign.api import check_project
from paralign.capture import CaptureWriter
from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, Manifest
from paralign.run.project import read
from paralign.run.ranks import Ranks
from paralign.stages.distributed.behaviour import Average, Way
from paralign.worker.protocol import Ranked

PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"

pytestmark = [pytest.mark.torch, pytest.mark.paddle]


def write(folder):
    """The example of the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name in ("reference.py", "candidate.py", "paralign.toml"):
        block = re.search(rf"`{re.escape(name)}`:\n\n```\w+\n(.*?)```", text, re.DOTALL)
        (folder / name).write_text(block[1])
    return folder


def test_the_example_of_the_page_is_aligned_with_synchronised_layers_on_the_cpu(tmp_path):
    result, _ = check_project(write(tmp_path), ["distributed"])
    stage = result["distributed"]
    assert (stage.verdict, stage.warnings) == (ALIGNED, [])
    told = {p.key: (p.reference.text, p.candidate.text) for p in stage.pairs}
    assert told["gradients"] == (Way.JOINED.value,) * 2
    assert told["update"] == (Way.GIVEN.value,) * 2
    assert told["running statistics"] == ("of all ranks' samples: synchronised",) * 2
    assert told["samples"] == ("each sample is given to one rank, once; 26 samples",) * 2
    assert told["learning rate"] == ("times the number of ranks",) * 2
    assert told["metric accuracy"] == (Average.PADDED.value,) * 2
    assert told["saving"] == ("rank 0 alone",) * 2


REFERENCE_BY_HAND = """

def distribute(model):
    dist.init_process_group("gloo")
    for value in model.state_dict().values():
        dist.broadcast(value, 0)
    return model


def train_step(model, optimizer, batch):
    inputs, labels = batch
    optimizer.zero_grad()
    value = loss(model(inputs), labels)
    value.backward()
    if world_size() > 1:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size()
    nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    optimizer.step()
    return value
"""

CANDIDATE_BY_HAND = """

def distribute(model):
    dist.init_parallel_env()
    for value in model.state_dict().values():
        dist.broadcast(value, 0)
    return model


def train_step(model, optimizer, batch):
    inputs, labels = batch
    value = loss(model(inputs), labels)
    value.backward()
    count = dist.get_world_size()
    if count > 1:
        for parameter in model.parameters():
            TOGETHER
    paddle.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    optimizer.step()
    optimizer.clear_grad()
    return value
"""

BY_MEAN = "dist.all_reduce(parameter.grad); parameter.grad.set_value(parameter.grad / count)"
BY_SUM = "dist.all_reduce(parameter.grad)"
BY_ONE_RANK = (
    "total = parameter.grad.clone(); dist.all_reduce(total); parameter.grad.set_value(total / count if dist.get_rank() else parameter.grad)"
)


@pytest.mark.parametrize(
    ("together", "limit", "gradients", "replicas"),
    [
        (BY_MEAN, 0.05, Way.JOINED, "equal after every step"),
        (BY_SUM, 1e9, Way.SUM, "equal after every step"),
        (BY_ONE_RANK, 0.05, Way.SOME, "different after step 0"),
    ],
    ids=["mean", "sum", "one rank"],
)
def test_gradients_that_a_step_exchanges_by_hand_are_told_as_the_update_takes_them(tmp_path, together, limit, gradients, replicas):
    write(tmp_path)
    for side, functions in {"reference": REFERENCE_BY_HAND, "candidate": CANDIDATE_BY_HAND.replace("TOGETHER", together)}.items():
        text = (tmp_path / f"{side}.py").read_text()
        for old, new in {"BatchNorm1": "Layer", "LayerD(": "LayerNorm(", "Layerd(": "LayerNorm(", "model.module.": "model."}.items():
            text = text.replace(old, new)
        (tmp_path / f"{side}.py").write_text(text + functions.replace("0.05", repr(limit)))
    stage = check_project(tmp_path, ["distributed"])[0]["distributed"]
    told = {p.key: (p.reference.text, p.candidate.text) for p in stage.pairs}
    assert told["gradients"] == (Way.JOINED.value, gradients.value)
    assert told["replicas"] == ("equal after every step", replicas)
    assert told["update"][0] == Way.GIVEN.value
    assert stage.verdict == (ALIGNED if gradients is Way.JOINED else DIVERGED)


def failure_of(folder, side, timeout=120):
    """How the ranks of one side fail."""
    project = read(folder)
    settings = getattr(project, side)
    captures = folder / f"{side}-captures"
    captures.mkdir()
    with CaptureWriter(folder / f"{side}-weights", Manifest(side=side, stage="weights")):
        pass
    ranks = Ranks(side, settings, replace(project.settings.distributed, timeout=timeout), folder / f"{side}-ranks", folder)
    options = Ranked("train", "val", 1)
    with pytest.raises(WorkerFailed) as caught:
        ranks.record(folder / f"{side}-weights", captures, options)
    return caught.value


def test_a_rank_that_fails_is_named_before_those_that_lose_it(tmp_path):
    write(tmp_path)
    for side, act in (("reference", "raise ValueError('no labels')"), ("candidate", "os.kill(os.getpid(), 11)")):
        path = tmp_path / f"{side}.py"
        head = "def loss(outputs, labels):\n"
        path.write_text(path.read_text().replace(head, f"{head}    if dist.is_initialized() and dist.get_rank() == 1:\n        {act}\n"))
    with ThreadPoolExecutor(2) as pool:
        torch, paddle = pool.map(lambda side: failure_of(tmp_path, side), ("reference", "candidate"))
    assert torch.type == "ValueError"
    assert "rank 1 of 2 failed first, during step 0" in torch.message
    assert torch.frames[-1].endswith("in loss: raise ValueError('no labels')")
    assert Path(torch.log).parts[-3:] == ("attempt_0", "1", "stderr.log")
    assert "rank 1 of 2 failed first, during step 0" in paddle.message
    assert "killed by signal SIGSEGV" in paddle.message
    assert paddle.frames[-1].endswith("in loss: os.kill(os.getpid(), 11)")
    assert Path(paddle.log).name == "workerlog.1"
    assert "`Out of all … trainers` only says" in paddle.message
