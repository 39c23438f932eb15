"""The programs of examples/mobilenetv3 as a user runs them: training, several processes, prediction, the guides' scripts, the small set."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "mobilenetv3"
SCRIPTS = ["01_test_forward", "02_test_data", "03_test_metric", "04_test_loss", "05_test_backward"]
NAMES = {
    "forward": ["logits"],
    "metric": ["acc_top1", "acc_top5"],
    "loss": ["loss"],
    "data": ["length", "dataloader_0", "dataloader_1"],
    "losses": ["loss_0", "lr_0", "loss_1", "lr_1", "loss_2", "lr_2"],
}

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.paddle]

#: in one process, so that both frameworks are imported once: weights with the statistics of real activations, their conversion, the guides'
#: scripts (a wrong port before the right one), and both prediction programs
ALL = """
import runpy, sys, torch
sys.path[:0] = ["guide", "reference"]

def run(path, *arguments, told=None):
    sys.argv = [path, *arguments]
    print("##", told or path)
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        print("ended with", end.code)

from mobilenetv3 import train
from mobilenetv3.model import MobileNetV3Small
torch.manual_seed(0)
model = MobileNetV3Small()
train.recalibrate(model, [(torch.randn(4, 3, 64, 64), None)])
torch.nn.init.normal_(model.classifier.weight, std=0.05)
torch.save(model.state_dict(), "mobilenet_v3_small.pth")
del sys.path[1], sys.modules["mobilenetv3"]
run("guide/torch2paddle.py")
run("guide/01_test_forward.py")
from mobilenetv3_paddle import breaks
breaks.CHOSEN = "loss"
run("guide/04_test_loss.py", told="a wrong loss")
breaks.CHOSEN = ""
for name in ("02_test_data", "03_test_metric", "04_test_loss", "05_test_backward"):
    run("guide/" + name + ".py")
for side in ("reference", "candidate"):
    run(side + "/tools/predict.py", "--img", "data/val/china/00.png")
run("reference/tools/predict.py", "--img", "nowhere.png", told="no picture")
"""


def started(*command, cwd, **more):
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "PYTHON": sys.executable, "PARALIGN_BREAK": "", **more}
    return subprocess.run([str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A copy of the example with few noise images, fake data and weights."""
    for module in ("torch", "paddle", "PIL"):
        pytest.importorskip(module)
    from PIL import Image

    folder = tmp_path_factory.mktemp("programs") / "mobilenetv3"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("data", "result*", "output", "*.pth", "*.pdparams", "__pycache__"))
    rng = np.random.default_rng(1)
    for split, count in (("train", 4), ("val", 3), ("lite_data/val", 3)):
        for name in ("china", "flower"):
            (folder / "data" / split / name).mkdir(parents=True)
            for number in range(count):
                coarse = Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8))
                coarse.resize((60, 70)).save(folder / "data" / split / name / f"{number:02}.png")
    np.save(folder / "data" / "fake_data.npy", rng.random((1, 3, 224, 224), dtype=np.float32) - 0.5)
    np.save(folder / "data" / "fake_label.npy", np.arange(1))
    return folder


@pytest.fixture(scope="module")
def told(example):
    """What each program printed, by its path."""
    done = started(sys.executable, "-c", ALL, cwd=example)
    assert done.returncode == 0, done.stderr
    parts = re.split(r"^## (.*)$", done.stdout, flags=re.MULTILINE)
    return {**dict(zip(parts[1::2], parts[2::2], strict=True)), "errors": done.stderr}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_guides_scripts_pass(script, told):
    assert told[f"guide/{script}.py"].rstrip().endswith("root INFO: diff check passed\nended with 0")


def test_the_guides_scripts_leave_the_guides_files(told, example):
    from paralign.compat.reprod_log import ReprodDiffHelper

    assert "hidden.weight: (1024, 576) -> (576, 1024)" in told["guide/torch2paddle.py"]
    for name, keys in NAMES.items():
        for side in ("ref", "paddle"):
            assert list(ReprodDiffHelper().load_info(str(example / "guide" / "result" / f"{name}_{side}.npy"))) == keys
        assert (example / "guide" / "result" / "log" / f"{name}_diff.log").read_text().rstrip().endswith("diff check passed")


def test_a_wrong_port_fails_in_the_guides_form(told):
    assert "check passed: False" in told["a wrong loss"]
    assert told["a wrong loss"].rstrip().endswith("diff check failed\nended with 1")


PREDICTED = re.compile(r"^class_id: (\d+), prob: ([01]\.\d{6}), class_name: (.*)$", re.MULTILINE)


def test_both_programs_predict_alike(told):
    ours, theirs = (PREDICTED.search(told[f"{side}/tools/predict.py"]).groups() for side in ("reference", "candidate"))
    assert (ours[0], ours[2]) == (theirs[0], theirs[2])
    assert float(ours[1]) == pytest.approx(float(theirs[1]), abs=1e-5)


def test_a_picture_that_is_not_there_is_one_clear_line(told):
    assert told["no picture"].strip() == "ended with 2"
    assert told["errors"].splitlines()[-1] == "predict.py: error: nowhere.png is not there"


SIDES = {"reference": ("benchmark", "{}.pth"), "candidate": ("paddle", "{}.pdparams")}


@pytest.mark.parametrize("side", SIDES)
def test_two_processes_train_and_one_continues(side, example):
    """Two launched processes write one log, one checkpoint and one result; a single process resumes from it."""
    from paralign.compat.reprod_log import ReprodDiffHelper

    label, file = SIDES[side]
    output = example / f"output-{side}"
    few = ("--batch-size", "2", "--print-freq", "1", "--output-dir", output)
    done = started("bash", f"{side}/train_dist.sh", "--epochs", "1", *few, cwd=example, LOG_DIR=str(output / "launch"))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (output / "train.log").read_text().splitlines()
    assert len(lines) == 3  # 8 images in 2 processes of 2 a step, and the evaluation
    assert re.fullmatch(
        r"\[Epoch 0, iter: 0\] acc: \d\.\d{5}, lr: 0\.10000, loss: \d+\.\d{5}, avg_reader_cost: .*, avg_samples: 2\.0, .* images/sec\.",
        lines[0],
    )
    assert re.fullmatch(r"\[Epoch 0, eval\] acc_top1: \d\.\d{5}, acc_top5: \d\.\d{5}\.", lines[2])
    assert {(output / file.format(name)).exists() for name in ("latest", "model_0")} == {True}
    aligned = ReprodDiffHelper().load_info(str(output / f"train_align_{label}.npy"))
    assert list(aligned) == ["acc_top1", "acc_top5"]
    assert float(aligned["acc_top1"][0]) * 6 == pytest.approx(round(float(aligned["acc_top1"][0]) * 6))  # of all 6 images, each once
    done = started(sys.executable, f"{side}/train.py", "--epochs", "2", *few, "--resume", cwd=example)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (output / "train.log").read_text().splitlines()[3:]
    assert [line.partition("]")[0] for line in lines] == [f"[Epoch 1, iter: {step}" for step in range(4)] + ["[Epoch 1, eval"]
    assert all("lr: 0.10000" in line for line in lines[:4])  # the rate that was saved, not this run's default


def test_the_small_set_is_drawn_the_same_every_time(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(EXAMPLE)
    sys.modules.pop("prepare", None)
    import prepare

    for folder in (tmp_path / "one", tmp_path / "two"):
        for split in ("train", "val"):
            for name in ("china", "flower"):
                (folder / split / name).mkdir(parents=True)
                for number in range(11):
                    (folder / split / name / f"{number:02}.png").write_bytes(f"{split} {name} {number}".encode())
        prepare.draw_lite(folder)
        prepare.write_fake(folder)
    sys.modules.pop("prepare", None)
    assert (tmp_path / "one" / "lite_data.tar").read_bytes() == (tmp_path / "two" / "lite_data.tar").read_bytes()
    with tarfile.open(tmp_path / "one" / "lite_data.tar") as archive:
        names = archive.getnames()
    assert len(names) == 32  # 8 of each class and split
    assert names[0] == "lite_data/train/china/00.png"
    assert (tmp_path / "one" / "lite_data" / "val" / "flower" / "07.png").read_bytes() == b"val flower 7"
    assert np.load(tmp_path / "one" / "fake_data.npy").shape == (1, 3, 224, 224)
