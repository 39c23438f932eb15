"""A data-parallel program converted, and both started by their own launchers: equal weights, equal samples of each rank, equal sums."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

PROGRAM = """
import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Squares(Dataset):
    def __len__(self):
        return 14

    def __getitem__(self, index):
        return torch.tensor([float(index), 1.0]) / 10, torch.tensor(float(index) ** 2 / 100)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5, -0.25]))

    def forward(self, x):
        return (x * self.scale).sum(1)


def main(folder):
    dist.init_process_group(backend="gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    net = DDP(Net())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    data = Squares()
    sampler = DistributedSampler(data, shuffle=False)
    loader = DataLoader(data, batch_size=3, sampler=sampler)
    seen = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            seen.append(x[:, 0].sum().item())
        scheduler.step()
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    highest = torch.tensor([rank + 1.0])
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    parts = [torch.zeros(1) for _ in range(size)]
    dist.all_gather(parts, torch.tensor([rank + 5.0]))
    sent = torch.tensor([rank + 7.0])
    dist.broadcast(sent, src=1)
    dist.barrier()
    told = {
        "weight": net.module.scale.tolist(), "seen": seen, "rank": int(os.environ["RANK"]), "size": int(os.environ.get("WORLD_SIZE", 1)),
        "local": int(os.environ["LOCAL_RANK"]), "sums": [total.item(), highest.item(), sent.item()], "parts": [each.item() for each in parts],
    }
    with open(os.path.join(folder, f"{rank}.json"), "w") as file:
        json.dump(told, file)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # threads of gloo in PyTorch 2.13 may abort the end of the interpreter


if __name__ == "__main__":
    main(sys.argv[1])
"""


def _ranks(folder, *launcher):
    (folder / "out").mkdir(parents=True)
    command = [sys.executable, "-m", *launcher, str(folder / "train.py"), str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / "out" / f"{rank}.json").read_text()) for rank in range(2)]


def test_two_processes_of_a_converted_program_do_what_those_of_the_original_do(tmp_path):
    source, port = tmp_path / "source", tmp_path / "port"
    source.mkdir()
    (source / "train.py").write_text(PROGRAM)
    ledger = convert_code(source, port)
    assert not [place for place in ledger.places if place.fate is Fate.BY_HAND]
    told = {place.name for place in ledger.places if place.fate is Fate.CONDITION}
    assert {"torch.distributed.init_process_group", "torch.nn.parallel.DistributedDataParallel"} <= told
    theirs = _ranks(source, "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    ours = _ranks(port, "paddle.distributed.launch", "--nproc_per_node", "2", "--log_dir", str(tmp_path / "log"))
    for reference, candidate in zip(theirs, ours, strict=True):
        assert candidate.pop("weight") == pytest.approx(reference.pop("weight"), abs=1e-6)
        assert candidate.pop("seen") == pytest.approx(reference.pop("seen"), abs=1e-6)
        assert candidate == reference
