"""Gradients that a training loop clips, found in its source: advice instead of an edit that would take the port's clipping away."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from paralign.locate.optimizer.identify import Difference
from paralign.locate.optimizer.term_causes import CLIPPED_ELSEWHERE
from paralign.locate.optimizer.update_rules import Terms
from paralign.model import DIVERGED, Finding, StageResult
from paralign.repair.clipping_edits import alters_clipping
from paralign.repair.edited_source import Edit
from paralign.repair.trying import _allowed
from paralign.report.language import say as said
from paralign.report.language import speaking
from paralign.stages.steps.looped_clipping import LOOPED, clipping_calls, say
from paralign.stages.steps.update_reasons import Reasons, by_what_can_be_changed


def write(folder, **files):
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def places(folder, framework="torch"):
    return [place.removeprefix(f"{folder}/") for place in clipping_calls(folder, framework)]


@pytest.mark.parametrize(
    "call",
    [
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)",
        "nn.utils.clip_grad_value_(model.parameters(), 1)",
        "accelerator.clip_grad_norm_(model.parameters(), 1.0)",
        "clip_gradient(optimizer, 0.5)",
        "Trainer(gradient_clip_val=0.5)",
    ],
)
def test_calls_that_clip_are_found(tmp_path, call):
    write(tmp_path, train=f"import torch\n\ndef train():\n    {call}\n    optimizer.step()\n")
    assert places(tmp_path) == ["train.py:4"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def train():\n    loss.backward()\n    clip_grad_norm_(p, BOUND)\n", [4]),
        ("loss.backward()\nclip_grad_norm_(p, 1)\n", [3]),
        ("def train():\n    def close():\n        clip_grad_norm_(p, 1)\n    close()\n    optimizer.step()\n", [4, 5]),
        ("def bound(p):\n    clip_grad_norm_(p, 1)\ndef train():\n    bound(p)\n    accelerator.backward(loss)\n", [5]),
        ("def setup():\n    return build_grad_clip(cfg)\ndef train():\n    loss.backward()\n", []),
        ("clip_grad_norm_(p, 1)\ndef train():\n    loss.backward()\n", []),
        ("def train():\n    loss.backward()\n    norm = clip_grad_norm_(p, float('inf'))\n", []),
        ("def train():\n    loss.backward()\n    norm = clip_grad_norm_(p, max_norm=math.inf)\n", []),
        ("def train():\n    loss.backward()\n    norm = clip_grad_norm_(p, 1e999)\n", []),
        ("def train():\n    loss.backward()\n    clip_grad_norm_(p, 1.0, float('inf'))\n", [4]),
        ("def train():\n    loss.backward()\n    clip_grad_norm_(p, 1.0, norm_type=math.inf)\n", [4]),
    ],
)
def test_only_where_steps_are_taken_and_with_a_bound(tmp_path, text, lines):
    write(tmp_path, train=f"import torch\n{text}")
    assert places(tmp_path) == [f"train.py:{line}" for line in lines]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nloss.backward()\n# clip_grad_norm_(parameters, 5)\n",
        "import torch\nloss.backward()\ntorch.clip(x, 0, 1)\n",
        "import torch\nloss.backward()\ndef clip_grad_norm_(parameters):\n    pass\n",
        "import torch\nTrainer(gradient_clip_val=None)\n",
        "import torch\nTrainer(gradient_clip_val=0)\n",
        "from . import torch\nloss.backward()\nclip_grad_norm_(x, 1)\n",
        "import paddle\nloss.backward()\npaddle.nn.utils.clip_grad_norm_(x, 1)\n",
        "import torch\nloss.backward()\noptimizer = Adam(grad_clip=ClipGradByNorm(1.0))\n",
        "import torch\nloss.backward()\nclip_grad_norm_(\n",
        "import torch\nloss.backward()\nclip_grad_norm_(x, 1)\n\0",
    ],
    ids=["comment", "clip", "definition", "none", "zero", "relative", "other framework", "class", "syntax", "null"],
)
def test_what_clips_no_gradient_is_not(tmp_path, text):
    write(tmp_path, train=text)
    assert places(tmp_path) == []


def test_hidden_folders_and_environments_are_left_out(tmp_path):
    clips = "import torch\nclip_grad_norm_(x, 1)\nloss.backward()\n"
    write(tmp_path, b__train=clips, a=clips, env__lib=clips, build__old=clips)
    write(tmp_path / ".hidden", train=clips)
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    assert places(tmp_path) == ["a.py:2", "b/train.py:2"]
    assert places(tmp_path / "absent") == []


def case(root, *, steps=(), fix=CLIPPED_ELSEWHERE):
    finding = Finding("update/clip", "gradient clipping: none in the reference", fix, proven=True)
    settings = SimpleNamespace(sides={"reference": SimpleNamespace(root=root), "candidate": SimpleNamespace(root=root)})
    context = SimpleNamespace(settings=settings, framework=lambda side: "torch" if side == "reference" else "paddle")
    context.has = lambda side, name: name == "train_step" and side in steps
    return context, finding


BUILT = "optimizer = Adam(lr=0.1, grad_clip=ClipGradByNorm(1.0))\n"


def edit(path, text, old, new):
    start = text.index(old)
    return Edit(path, text.encode(), start, start + len(old), new)


def kept(folder, finding):
    """What is tried of two edits: one of the rate, one of the clipping."""
    edits = [
        edit(folder / "port.py", BUILT, "lr=0.1", "lr=0.2"),
        edit(folder / "port.py", BUILT, "grad_clip=ClipGradByNorm(1.0)", "grad_clip=None"),
    ]
    stage = StageResult("backward", DIVERGED, findings=[finding])
    return [each.edit.text for each in _allowed(stage, iter([SimpleNamespace(edit=each) for each in edits]))]


@pytest.mark.parametrize(
    ("name", "text", "old", "new", "alters"),
    [
        ("port.py", BUILT, "1.0", "2.0", True),
        ("port.py", BUILT, ", grad_clip=ClipGradByNorm(1.0)", "", True),
        ("port.py", "optimizer = Adam(lr=0.1)\n", "0.1", "0.1, grad_clip=ClipGradByNorm(1.0)", True),
        ("port.py", "BOUND = 1.0\noptimizer = Adam(grad_clip=ClipGradByNorm(BOUND))\n", "1.0", "None", True),
        ("port.py", "BOUND = 1.0\nRATE = 1\noptimizer = Adam(RATE, grad_clip=ClipGradByNorm(BOUND))\n", "RATE = 1", "RATE = 2", False),
        ("port.py", "OPTIONS = {'grad_clip': 1.0, 'lr': 2.0}\n", "1.0", "None", True),
        ("port.py", "OPTIONS = {'grad_clip': 1.0, 'lr': 2.0}\n", "2.0", "1.0", False),
        ("port.yaml", "optimizer:\n  lr: 0.1\n  clip_norm: 5.0\n", "5.0", "0.0", True),
        ("port.yaml", "optimizer:\n  lr: 0.1\n  clip_norm: 5.0\n", "0.1", "0.2", False),
        ("port.py", "", "", "", False),
    ],
)
def test_an_edit_of_the_clipping_is_known(tmp_path, name, text, old, new, alters):
    assert alters_clipping(edit(tmp_path / name, text, old, new)) == alters


def test_the_line_that_clips_is_said_and_no_edit_of_the_clipping_is_tried(tmp_path):
    write(tmp_path, train="import torch\nclip_grad_norm_(x, 1)\nloss.backward()\n")
    context, finding = case(tmp_path)
    say(context, finding, "reference")
    assert finding.rule == LOOPED
    assert finding.fix.startswith(f"nothing, if both clip alike: the reference may clip in its training loop ({tmp_path}/train.py:2). Give")
    assert kept(tmp_path, finding) == ["lr=0.2"]
    with speaking("zh"):
        assert said(finding.fix).startswith("若两侧裁剪相同则无需修改：参考可能在训练循环中裁剪")  # noqa: RUF001 - Chinese


@pytest.mark.parametrize(
    ("side", "more"),
    [
        ("candidate", {}),
        ("reference", {"steps": ("reference", "candidate")}),
        ("reference", {"fix": "clip as the reference does: none"}),
    ],
    ids=["no such call", "own steps are compared", "both clip"],
)
def test_else_the_finding_stays_and_edits_are_tried(tmp_path, side, more):
    write(tmp_path, train="import torch\nclip_grad_norm_(x, 1)\nloss.backward()\n")
    context, finding = case(tmp_path, **more)
    before = finding.fix
    say(context, finding, side)
    assert (finding.rule, finding.fix) == ("update/clip", before)
    assert kept(tmp_path, finding) == ["lr=0.2", "grad_clip=None"]


def test_a_side_without_settings_is_left_alone():
    context, finding = case(None)
    context.settings.sides = {}
    say(context, finding, "reference")
    assert finding.rule == "update/clip"


def test_what_no_port_can_avoid_is_told_behind_what_it_can():
    place = Difference(("place",), ("outside",), ("inside",), ["w"], 2.0, 0.0)
    decay = Difference(("second",), (0.99,), (0.95,), ["w"], 1.0, 0.0)
    abouts = {"framework": "torch", "own": False}, {"framework": "paddle", "own": False}
    recipe = {"w": Terms("rmsprop", (0.1,), eps=1e-8)}
    found = by_what_can_be_changed([place, decay], abouts, recipe)
    assert [each.terms for each in found] == [("second",), ("place",)]
    assert Reasons(None, (None, None), found).blamed is decay
    assert Reasons(None, (None, None), by_what_can_be_changed([place], abouts, recipe)).blamed is place
    assert Reasons(None, (None, None), []).blamed is None
