"""A number that is right where it is written, and taken in a wrong way: the line that takes it is named, not the settings."""

from __future__ import annotations

import json

import pytest

from paralign.cli import main
from paralign.model import DIVERGED

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = pytest.mark.usefixtures("standing_workers")

REFERENCE = """
import torch
from torch import nn
from torch.nn import functional as F

OPTIONS = {"epsilon": 0.003, "margin": 0.17, "rate": 0.02, "decay": 0.7, "depth": 2}

def make_model(options):
    def build():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    return build

def make_loss(options):
    def loss(outputs, labels):
        lead = outputs[:, :1] - outputs[:, 1:] - options["margin"]
        return torch.sqrt(lead ** 2 + options["epsilon"] ** 2).mean() + F.cross_entropy(outputs, labels)
    return loss

def make_optimizer(options):
    def optimizer(model):
        def scale(name):
            return options["decay"] ** (options["depth"] - int(name[0]) // 2)
        groups = [{"params": [p], "lr": options["rate"] * scale(name)} for name, p in model.named_parameters()]
        return torch.optim.SGD(groups, lr=options["rate"], momentum=0.9)
    return optimizer

build_model, loss, build_optimizer = make_model(OPTIONS), make_loss(OPTIONS), make_optimizer(OPTIONS)
"""

OPTIONS = '{"objective": {"epsilon": 0.003, "margin": 0.17}, "solver": {"rate": 0.02, "decay": 0.7, "depth": 2}}\n'

SETTINGS = """
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))


class Section(dict):
    def __getattr__(self, key):
        return self[key]


def read(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as stream:
        return json.load(stream, object_hook=Section)
"""

CANDIDATE = """
import paddle
from paddle import nn
from paddle.nn import functional as F
from used_settings import read

SET = read("used_options.json")

def build_model():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))

def spread(lead, epsilon):
    return paddle.sqrt(lead.square() + epsilon ** 2).mean()

def loss(outputs, labels):
    o = SET.objective
    lead = outputs[:, :1] - outputs[:, 1:] - o.margin
    return spread(lead, o.epsilon) + F.cross_entropy(outputs, labels)

def groups(model, o):
    for name, p in model.named_parameters():
        yield {"params": [p], "learning_rate": o.decay ** (o.depth - int(name[0]) // 2)}

def build_optimizer(model):
    o = SET.solver
    return paddle.optimizer.Momentum(o.rate, 0.9, parameters=list(groups(model, o)))
"""

PROJECT = (
    '[reference]\nmodule = "used_reference.py"\nframework = "torch"\n'
    '[candidate]\nmodule = "used_candidate.py"\nframework = "paddle"\n[inputs]\nshape = [5, 6]\n[labels]\nshape = [5]\ndtype = "int64"\nhigh = 4\n'
)


def first(folder, capsys, stage, old="", new=""):
    candidate = CANDIDATE.replace(old, new) if old else CANDIDATE
    assert not old or candidate != CANDIDATE
    files = {"used_reference.py": REFERENCE, "used_settings.py": SETTINGS, "used_options.json": OPTIONS, "used_candidate.py": candidate}
    for name, text in {**files, "paralign.toml": PROJECT}.items():
        (folder / name).write_text(text)
    main(["check", str(folder), "weights", stage, "--json"])
    found = next(each for each in json.loads(capsys.readouterr().out)["stages"] if each["name"] == stage)
    if found["verdict"] != DIVERGED:
        return found["verdict"]
    place = (found["divergences"] or [found["divergence"]])[0]["candidate"]["source"]
    file, _, line = place.rpartition(":")
    assert file.endswith("used_candidate.py"), place
    return candidate.splitlines()[int(line) - 1].strip()


@pytest.mark.parametrize("stage", ["loss", "optimizer"])
def test_a_right_port_has_none(stage, tmp_path, capsys):
    assert first(tmp_path, capsys, stage) == "aligned"


def test_a_missing_square_of_a_setting_read_from_a_file(tmp_path, capsys):
    named = first(tmp_path, capsys, "loss", "epsilon ** 2).mean()", "epsilon).mean()")
    assert named == "return paddle.sqrt(lead.square() + epsilon).mean()"


def test_a_wrong_sign_before_a_setting(tmp_path, capsys):
    named = first(tmp_path, capsys, "loss", "- o.margin", "+ o.margin")
    assert named == "lead = outputs[:, :1] - outputs[:, 1:] + o.margin"


def test_a_formula_for_the_rates_of_groups_beside_closures_of_the_reference(tmp_path, capsys):
    named = first(tmp_path, capsys, "optimizer", "(o.depth - int", "(o.depth + 1 - int")
    assert named.startswith('yield {"params": [p], "learning_rate": o.decay **')
