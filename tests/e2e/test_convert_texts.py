"""Loaders of converted programs: the batches of samples that are texts, alone or beside numbers."""

import json
import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code

pytestmark = pytest.mark.programs

pytest.importorskip("torch")
pytest.importorskip("paddle")

BATCHES = """
import json
from collections import namedtuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

Pair = namedtuple("Pair", "text number")


class Samples(Dataset):
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, at):
        return self.samples[at]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(["a", "b", "c"])


def said(each):
    if torch.is_tensor(each):
        return ["tensor", str(each.dtype).rpartition(".")[2], each.tolist()]
    if isinstance(each, dict):
        return {key: said(value) for key, value in each.items()}
    if isinstance(each, (list, tuple)):
        return [type(each).__name__, *map(said, each)]
    return each if isinstance(each, (int, float, str)) else repr(each)


sets = [
    ["a", "b", "c"],
    [b"a", b"b", b"c"],
    [["a", "b"], ["c", "d"], ["e", "f"]],
    [("a", 1), ("b", 2), ("c", 3)],
    [{"text": "a", "number": 1.5}, {"text": "b", "number": 2.5}, {"text": "c", "number": 3.5}],
    [Pair("a", 1), Pair("b", 2), Pair("c", 3)],
    [("a", ("b", "c"))] * 3,
    [([], "a")] * 3,
    [{"a": {"b": "c"}}] * 3,
    [1, 2, 3],
    [True, False, True],
    [np.float32(1)] * 3,
    [np.bool_(True), np.bool_(False), np.bool_(True)],
    [(np.float64(0.1), np.int64(4))] * 3,
    [(np.ones(2, "float32"), 1.5)] * 3,
    [(torch.ones(2), 1)] * 3,
]
out = []
for samples in sets:
    out.append([said(each) for each in DataLoader(Samples(samples), batch_size=2)])
    out.append([said(each) for each in DataLoader(Samples(samples), batch_size=None)])
    out.append([said(each) for each in DataLoader(Samples(samples), 2, False, drop_last=True)])
for samples in (sets[0], sets[3]):
    out.append([said(each) for each in DataLoader(Samples(samples), batch_size=2, num_workers=2)])
out += [[said(each) for each in DataLoader(Stream(), batch_size=size)] for size in (2, None)]
out.append([said(each) for each in DataLoader(TensorDataset(torch.arange(3.0), torch.arange(3)), batch_size=2)])
loader = DataLoader(Samples(["a", "b"]))
out += [len(loader), isinstance(loader, DataLoader), len(loader.dataset)]
print(json.dumps(out))
"""


def _both(folder, program):
    (folder / "source.py").write_text(program, encoding="utf-8")
    ledger = convert_code(folder / "source.py", folder / "port.py", force=True)
    assert not ledger.left
    ran = [
        subprocess.run([sys.executable, folder / name], capture_output=True, text=True, check=False) for name in ("source.py", "port.py")
    ]
    assert ran[0].returncode == 0, ran[0].stderr
    assert ran[1].returncode == 0, ran[1].stderr
    return [each.stdout.splitlines()[-1] for each in ran]


def test_batches_are_those_of_the_original(tmp_path):
    original, converted = map(json.loads, _both(tmp_path, BATCHES))
    assert original[0] == [["list", "a", "b"], ["list", "c"]]
    assert converted == original


WIDE = """
import numpy as np
from torch.utils.data import DataLoader, Dataset


class Depths(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, at):
        return np.array([257 + at, 65535], "uint16")


for size in (2, None):
    print([batch.tolist() for batch in DataLoader(Depths(), batch_size=size)], end=" ")
"""


def test_numbers_of_16_bits_stay_what_they_are(tmp_path):
    """Paddle takes an array of them for bfloat16, in which 257 is 256."""
    original, converted = _both(tmp_path, WIDE.replace("batch.tolist()", "(batch.long() + 0).tolist()"))
    assert converted == original


TWOFOLD = """
from torch.utils.data import DataLoader, Dataset


class Twofold(Exception):
    def __init__(self, name, place):
        super().__init__(f"{name} at {place}")


def refused(batch):
    raise Twofold("bad", 3)


class Numbers(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, at):
        return float(at)


if __name__ == "__main__":
    try:
        list(DataLoader(Numbers(), batch_size=2, num_workers=1, collate_fn=refused))
    except Exception as error:
        print("bad at 3" in str(error))
"""


def test_an_error_that_no_process_can_hand_on_is_told_from_a_worker(tmp_path):
    (tmp_path / "source.py").write_text(TWOFOLD)
    convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    for name in ("source.py", "port.py"):
        done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.stdout.splitlines()[-1:] == ["True"], done.stderr


RAGGED = """
from torch.utils.data import DataLoader, Dataset


class Texts(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, at):
        return ["text"] * (1 + at % 2)


if __name__ == "__main__":
    print(list(DataLoader(Texts(), batch_size=2)))
"""


def test_what_cannot_be_one_batch_is_an_error_and_no_wait(tmp_path):
    (tmp_path / "reference.py").write_text(RAGGED)
    convert_code(tmp_path / "reference.py", tmp_path / "port.py", force=True)
    said = []
    for name in ("reference.py", "port.py"):
        done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 1
        said.append(done.stderr.strip().splitlines()[-1])
    assert said[0] == said[1]
