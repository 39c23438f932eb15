"""Models that do not fit, in PyTorch and in Paddle: a right port, and one with a fault in its code and two in its checkpoint."""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from paralign.api import check_project
from paralign.capture.safetensors import write
from paralign.cli import main
from paralign.dtypes import Typed, narrow
from paralign.errors import CaptureFormatError, UsageError
from paralign.formats import Entry, Outgoing
from paralign.formats import write as write_checkpoint
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED
from paralign.worker.passes import blockwise

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "benchmarks" / "streaming"


def checkpoints():
    spec = importlib.util.spec_from_file_location("checkpoints", PROGRAM / "checkpoints.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def port(folder, faults=()):
    """The decoder of the benchmark with its two checkpoints, and the project file of the page."""
    checkpoints().make(folder, faults)
    for side in ("reference.py", "candidate.py"):
        shutil.copy(PROGRAM / side, folder / side)
    page = (ROOT / "docs" / "streaming.md").read_text()
    (folder / "paralign.toml").write_text(page.split("```toml\n")[1].split("```")[0].replace("sample = 2", "sample = 0"))


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.slow
@pytest.mark.usefixtures("standing_workers")
def test_a_right_port_is_aligned_and_what_was_not_run_is_said(tmp_path, capsys):
    port(tmp_path)
    assert main(["check", str(tmp_path), "-v"]) == 0
    told = capsys.readouterr().out
    assert "1 of 8 blocks run" in told
    assert "stored tensors compared: 75, of which 0 differ" in told
    report = json.loads((tmp_path / "result" / "report.json").read_text())
    assert [stage["verdict"] for stage in report["stages"]] == [ALIGNED, ALIGNED]
    keys = {pair["key"] for pair in report["stages"][1]["pairs"]}
    assert {"the model without its blocks: output", "block 0: output"} <= keys


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.slow
@pytest.mark.usefixtures("standing_workers")
def test_checkpoints_at_urls_are_copied_once(tmp_path):
    system = pytest.importorskip("fsspec").filesystem("memory")
    port(tmp_path)
    project = tmp_path / "paralign.toml"
    text = project.read_text()
    for side in ("reference", "candidate"):
        for path in (tmp_path / side).iterdir():
            system.pipe_file(f"/streamed/{side}/{path.name}", path.read_bytes())
            path.unlink()
        text = text.replace(f'checkpoint = "{side}"', f'checkpoint = "memory://streamed/{side}"')
    project.write_text(text)
    result, _ = check_project(tmp_path)
    assert result.verdict == ALIGNED
    copies = tmp_path / "result" / "checkpoints" / "reference"
    made = {path.name: path.stat().st_mtime_ns for path in copies.iterdir()}
    assert any(name.endswith(".safetensors") for name in made)
    system.pipe_file("/streamed/candidate/model.safetensors.index.json", b"{")
    with pytest.raises(CaptureFormatError, match="index"):
        check_project(tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in copies.iterdir()} == made


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.slow
@pytest.mark.usefixtures("standing_workers")
def test_a_wrong_base_a_swap_and_a_stale_shard_are_found_with_block_and_line(tmp_path):
    port(tmp_path, ("swap", "stale"))
    source = tmp_path / "candidate.py"
    source.write_text(source.read_text().replace("base=10000.0", "base=500000.0"))
    result, _ = check_project(tmp_path)
    weights, forward = result.stages
    assert (weights.verdict, forward.verdict) == (DIVERGED, DIVERGED)
    lines = source.read_text().splitlines()
    # the base, where it enters: its two values beside each other
    point = forward.divergence.candidate
    assert "in block 0" in forward.divergence.notes
    assert "base **" in point.code
    assert 500000.0 in point.arguments.values()
    assert 10000.0 in forward.divergence.reference.arguments.values()
    # gate and up of block 5: each holds the other's values
    swapped = {pair.key: pair.notes[-1] for pair in weights.wrong if "layers.5.mlp" in pair.key}
    assert swapped == {
        "stored layers.5.mlp.gate_proj.weight": "it holds what belongs to layers.5.mlp.up_proj.weight",
        "stored layers.5.mlp.up_proj.weight": "it holds what belongs to layers.5.mlp.gate_proj.weight",
    }
    told = {d.candidate.name: int(d.candidate.source.rpartition(":")[2]) for d in weights.divergences}
    assert "self.gate_proj" in lines[told["layers.5.mlp.gate_proj"] - 1]
    # the fourth shard: all of its tensors, and no other but the swapped
    stale = [warning for warning in weights.warnings if "the shard is stale" in warning]
    assert len(stale) == 1
    assert "model-00004-of-00009.safetensors" in stale[0]
    shard = checkpoints().TensorFile(tmp_path / "candidate" / "model-00004-of-00009.safetensors")
    assert {pair.key.removeprefix("stored ") for pair in weights.wrong} == {
        *shard.entries,
        *(key.removeprefix("stored ") for key in swapped),
    }


def test_without_what_streaming_needs_a_line_says_so(tmp_path):
    for side in ("reference.py", "candidate.py"):
        (tmp_path / side).write_text("def build_model():\n    return lambda x: x\n")
    text = '[model]\nstreaming = true\n[reference]\nframework = "numpy"\n[candidate]\nframework = "numpy"\n'
    (tmp_path / "paralign.toml").write_text(text)
    with pytest.raises(UsageError, match="streaming needs the reference's checkpoint"):
        check_project(tmp_path)
    (tmp_path / "paralign.toml").write_text(text.replace("[candidate]", 'checkpoint = "gone"\n[candidate]'))
    with pytest.raises(UsageError, match="the checkpoint of the reference is not there"):
        check_project(tmp_path)
    (tmp_path / "weights").mkdir()
    (tmp_path / "paralign.toml").write_text(text.replace("[candidate]", 'checkpoint = "weights"\n[candidate]').replace("true", "false"))
    with pytest.raises(UsageError, match="only a model that is streamed has a checkpoint"):
        check_project(tmp_path)
    (tmp_path / "paralign.toml").write_text(text.replace("[candidate]", 'checkpoint = "weights"\n[candidate]'))
    with pytest.raises(UsageError, match="the folder holds no checkpoint of a usual name"):
        check_project(tmp_path)
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    (tmp_path / "weights" / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    result, _ = check_project(tmp_path)
    assert "models of numpy cannot be streamed" in result.stages[0].failure["message"]
    assert result.stages[2].verdict == NOT_TESTED


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ("{", "this is no index of shards"),
        ("[]", "this is no index of shards"),
        ('{"weight_map": [1]}', "this is no index of shards"),
        ('{"weight_map": {"a": 1}}', "this is no index of shards"),
        ('{"weight_map": {"a": "../../etc/passwd"}}', "no file beside the index"),
    ],
)
def test_an_index_that_leads_elsewhere_is_refused(tmp_path, index, told):
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(Exception, match=told):
        blockwise.Shards(str(tmp_path))


def test_a_folder_without_one_checkpoint_is_refused(tmp_path):
    with pytest.raises(UsageError, match="the folder holds 0 checkpoints"):
        blockwise.Shards(str(tmp_path))
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(UsageError, match="from safetensors"):
        blockwise.Shards(str(tmp_path / "weights.bin"))


TABLES = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x, table, mask=None):
        return x + self.fc(x * table)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.cos(torch.arange(4.0)[:, None] / {base} ** (torch.arange(8.0) / 8)), persistent=False)
        self.layers = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x, table=self.table)
        return x

def build_model():
    return Net()
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("standing_workers")
def test_a_table_that_the_model_hands_to_its_blocks_is_compared_too(tmp_path):
    """Blocks are given the reference's table: a wrong one of the candidate's shows in what builds it, and in what they are called with."""
    for side, base in (("reference", 10000.0), ("candidate", 500.0)):
        (tmp_path / f"{side}.py").write_text(TABLES.format(base=base))
    random = np.random.default_rng(0)
    shapes = {f"layers.{n}.fc.{leaf}": (8, 8)[: 2 - (leaf == "bias")] for n in range(3) for leaf in ("weight", "bias")}
    write(
        tmp_path / "model.safetensors", {name: Typed(random.standard_normal(s).astype(np.float32), "float32") for name, s in shapes.items()}
    )
    sides = '[reference]\nframework = "torch"\ncheckpoint = "model.safetensors"\n[candidate]\nframework = "torch"\n'
    text = f'stages = ["weights", "forward"]\n[model]\nstreaming = true\nsample = 0\n{sides}[inputs]\nshape = [1, 4, 8]\n'
    (tmp_path / "paralign.toml").write_text(text)
    result, _ = check_project(tmp_path)
    weights, forward = result.stages
    assert [pair.key for pair in forward.wrong] == ["what layers.0 is called with: table"]
    assert forward.verdict == DIVERGED
    assert [pair.key for pair in weights.wrong] == ["the model without its blocks: built table"]
    assert any("the candidate names no checkpoint" in note for note in weights.notes)
    assert [(c.what, c.compared, c.total) for c in forward.coverage if "run" in c.what] == [("blocks run", 1, 3)]


WORDS = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x):
        return x + self.fc(self.norm(x)).{act}()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(12, 16), nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(16, 12)

    def forward(self, x):
        x = self.words(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

def build_model():
    return Net().to(torch.{dtype})
"""

SHAPES = {
    "words.weight": (12, 16),
    **{f"layers.{n}.{name}": shape for n in range(4) for name, shape in
       {"norm.weight": (16,), "norm.bias": (16,), "fc.weight": (16, 16), "fc.bias": (16,)}.items()},
    "head.weight": (12, 16), "head.bias": (12,),
}  # fmt: skip

SETTINGS = """stages = ["weights", "forward"]
[model]
streaming = true
sample = 1
jobs = {jobs}
free_running = {free}
[reference]
framework = "torch"
checkpoint = "{reference}"
[candidate]
framework = "torch"
checkpoint = "{candidate}"
[inputs]
shape = [2, 9]
dtype = "int64"
low = 0
high = 12
"""


def words(folder, *, jobs=1, free="true", reference="reference.pdparams", candidate="candidate.safetensors", dtype="float32", spoilt=""):
    """A model of words in PyTorch on both sides, its checkpoints in two formats; ``spoilt`` is another tensor in the candidate's."""
    for side in ("reference", "candidate"):
        (folder / f"{side}.py").write_text(WORDS.format(act="relu", dtype=dtype))
    for path in (reference, candidate):
        random = np.random.default_rng(0)
        items = []
        for name, shape in SHAPES.items():
            drawn = random.standard_normal(shape).astype(np.float32)
            value = narrow(drawn * np.float32(1.25) if name == spoilt and path == candidate else drawn, dtype)
            items.append(Outgoing(name, Entry(dtype, shape), lambda value=value: value))
        write_checkpoint(folder / path, items)
    text = SETTINGS.format(jobs=jobs, free=free, reference=reference, candidate=candidate)
    (folder / "paralign.toml").write_text(text)


@pytest.mark.torch
@pytest.mark.slow
def test_both_sides_run_freely_from_checkpoints_of_any_format(tmp_path):
    """Two units at a time; the reference's weights lie in a .pdparams, the candidate's in a zip of PyTorch."""
    words(tmp_path, jobs=2, candidate="candidate.pth")
    result, folder = check_project(tmp_path)
    assert result.verdict == ALIGNED, [(stage.verdict, stage.failure, stage.notes) for stage in result.stages]
    forward = result["forward"]
    free = next(pair for pair in forward.pairs if pair.key == "free running: output")
    assert free.judged
    assert free.error < 1e-12
    notes = " ".join(forward.notes)
    assert "the largest value is the same in 18 of 18 rows (the 5 largest in 18)" in notes
    assert "block 0: an error of its outputs above" in notes
    assert not list(folder.rglob("unit.json"))  # the check is whole


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("standing_workers")
def test_weights_of_a_block_that_was_not_run_show_in_the_free_run(tmp_path):
    """Of bfloat16: the block is right on the reference's inputs and weights, the model with its own is not."""
    words(tmp_path, dtype="bfloat16", spoilt="layers.3.fc.weight")
    settings = (tmp_path / "paralign.toml").read_text().replace("sample = 1", "sample = 0")
    (tmp_path / "paralign.toml").write_text(settings)
    result, _ = check_project(tmp_path)
    weights, forward = result.stages
    assert (weights.verdict, forward.verdict) == (DIVERGED, DIVERGED)
    assert [pair.key for pair in weights.wrong] == ["stored layers.3.fc.weight"]
    assert [pair.key for pair in forward.wrong] == ["free running: output"]
    least = [float(note.split("above ")[1].split(",")[0]) for note in forward.notes if note.startswith("block 0: an error of its outputs")]
    assert 1e-4 < least[0] < 1e-1  # as coarse as bfloat16


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("standing_workers")
def test_a_check_that_was_cut_short_goes_on_with_the_units_that_are_left(tmp_path):
    words(tmp_path, free="false")
    settings = (tmp_path / "paralign.toml").read_text().replace("sample = 1", "sample = 2")
    (tmp_path / "paralign.toml").write_text(settings)
    done = []

    def interrupt(step):
        done.append(step)
        if step.startswith("block") and sum(each.startswith("block") for each in done) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_project(tmp_path, progress=interrupt)
    assert len(list((tmp_path / "result" / "units").glob("*/unit.json"))) == 3
    result, _ = check_project(tmp_path)
    assert result.verdict == ALIGNED
    reused = [line for line in result.preflight if line.startswith("not run again")]
    assert len(reused) == 1
    assert "the model without its blocks, block 0, " in reused[0]
    assert result["forward"].coverage[0].compared == 3
    assert {pair.key for pair in result["forward"].pairs} >= {"block 0: output", "the model without its blocks: output"}
    again, _ = check_project(tmp_path)
    assert not any(line.startswith("not run again") for line in again.preflight)


@pytest.mark.parametrize(
    ("model", "told"),
    [("jobs = 0", "'jobs' must be above 0"), ("free_running = true", "a side runs freely with its own weights")],
)
def test_settings_of_streaming_that_cannot_be_are_refused(tmp_path, model, told):
    for side in ("reference", "candidate"):
        (tmp_path / f"{side}.py").write_text("def build_model():\n    return lambda x: x\n")
    text = f'[model]\nstreaming = true\n{model}\n[reference]\nframework = "numpy"\n[candidate]\nframework = "numpy"\n'
    (tmp_path / "paralign.toml").write_text(text)
    with pytest.raises(UsageError, match=told):
        check_project(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"tensors": {"a": {"dtype": "float32", "shape": [2], "parts": [["x", 0, 4]]}}}'])
def test_a_file_of_ranges_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "a-ranges.json").write_text(content)
    with pytest.raises(CaptureFormatError, match="no file of ranges"):
        blockwise.Shards(str(tmp_path / "a-ranges.json"))
