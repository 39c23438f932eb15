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
from paralign.model import ALIGNED, Manifest
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
