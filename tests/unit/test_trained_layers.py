"""Two trained models layer by layer: sizes and likeness of what every module gives, each model with its own file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from paralign import cli
from paralign.conversion.layers import cka
from paralign.dtypes import Typed
from paralign.formats import save

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SIDE = """from torch import nn


def build_model():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
"""

PROJECT = """[reference]
framework = "torch"

[candidate]
framework = "torch"

[inputs]
shape = [32, 6]
"""


def weights(seed, scale=1.0):
    draw = np.random.default_rng(seed)
    shapes = {"0.weight": (8, 6), "0.bias": (8,), "1.weight": (8,), "1.bias": (8,), "3.weight": (3, 8), "3.bias": (3,)}
    found = {name: Typed(draw.standard_normal(shape).astype(np.float32), "float32") for name, shape in shapes.items()}
    found["0.weight"] = Typed(found["0.weight"].array * np.float32(scale), "float32")
    return found


def permuted(tensors):
    """The same network with its hidden channels in another order."""
    order = np.random.default_rng(9).permutation(8)
    rows = {name: Typed(tensors[name].array[order], "float32") for name in ("0.weight", "0.bias", "1.weight", "1.bias")}
    return {**tensors, **rows, "3.weight": Typed(tensors["3.weight"].array[:, order].copy(), "float32")}


@pytest.fixture
def diffed(tmp_path, capsys):
    (tmp_path / "paralign.toml").write_text(PROJECT)
    for side in ("reference", "candidate"):
        (tmp_path / f"{side}.py").write_text(SIDE)

    def diff(first, second, *words, again=None, text=PROJECT):
        (tmp_path / "paralign.toml").write_text(text)
        files = {"a.pth": first, "b.safetensors": second, "c.npz": again}
        for name, tensors in files.items():
            (tmp_path / name).unlink(missing_ok=True)
            if tensors is not None:
                save(tmp_path / name, tensors)
        more = ["--again", str(tmp_path / "c.npz")] if again is not None else []
        code = cli.main(
            ["weights", "diff", str(tmp_path / "a.pth"), str(tmp_path / "b.safetensors"), "--model", str(tmp_path), *more, *words]
        )
        said = capsys.readouterr()
        return code, said.out, said.err

    return diff


def layers(out):
    told = json.loads(out)["layers"]
    return {row["reference"]: row for row in told["rows"]}, told["notes"]


def test_equal_weights_give_equal_layers(diffed):
    code, out, _ = diffed(weights(0), weights(0), "--json")
    rows, _ = layers(out)
    assert code == 0
    assert list(rows) == ["0", "1", "2", "3", "(the model)"]
    assert [row["distance"] for row in rows.values()] == [0.0] * 5
    assert [row["alike"] for row in rows.values()] == pytest.approx([1.0] * 5)


def test_the_same_network_with_its_channels_in_another_order_is_alike_though_no_element_is(diffed):
    code, out, _ = diffed(weights(0), permuted(weights(0)), "--json")
    rows, _ = layers(out)
    assert code == 1
    assert rows["0"]["distance"] > 0.5
    assert [row["alike"] for row in rows.values()] == pytest.approx([1.0] * 5, abs=1e-5)
    assert rows["(the model)"]["distance"] < 1e-5


def test_the_first_layer_of_another_size_and_the_first_less_alike_are_named(diffed):
    code, out, _ = diffed(weights(0), weights(0, scale=5.0), again=permuted(weights(0)))
    assert code == 1
    assert "the first layer whose outputs are of another size is 0:" in out
    code, out, _ = diffed(weights(0), weights(1), "--json", again=permuted(weights(0)))
    rows, notes = layers(out)
    assert "the first layer that is less alike than a second training of the reference's: 0" in notes
    assert rows["0"]["again"][1] == pytest.approx(1.0, abs=1e-5)
    assert any("no layer is less alike" in note for note in layers(diffed(weights(0), weights(0), "--json", again=weights(1))[1])[1])


def test_few_samples_say_that_likeness_needs_more(diffed):
    rows, notes = layers(diffed(weights(0), weights(1), "--json", text=PROJECT.replace("[32, 6]", "[2, 6]"))[1])
    assert {row["alike"] for row in rows.values()} == {None}
    assert any(note.startswith("2 samples: likeness needs 4") for note in notes)


def test_a_file_that_is_not_of_the_model_is_refused(diffed):
    lacking = {name: value for name, value in weights(0).items() if name != "3.bias"}
    code, _, err = diffed(weights(0), lacking)
    assert code == 2
    assert "the file lacks 1 parameters of the candidate's model: 3.bias" in err
    turned = {**weights(0), "3.weight": Typed(weights(0)["3.weight"].array.T.copy(), "float32")}
    code, _, err = diffed(turned, weights(0))
    assert code == 2
    assert "3.weight has shape (8, 3) in the file, (3, 8) in the reference's model" in err


def test_without_inputs_and_models_nothing_is_run(diffed, capsys):
    code, _, err = diffed(weights(0), weights(0), text=PROJECT.partition("[inputs]")[0])
    assert code == 2
    assert "there are no inputs" in err
    assert cli.main(["weights", "diff", "a.pth", "b.pth", "--again", "c.pth"]) == 2
    assert "--again needs --model" in capsys.readouterr().err


def test_values_that_are_not_finite_have_no_likeness(diffed):
    broken = weights(0)
    broken["0.bias"].array[0] = np.nan
    code, out, _ = diffed(weights(0), broken, "--json")
    rows, _ = layers(out)
    assert code == 1
    assert rows["0"]["alike"] is None
    assert rows["0"]["spreads"][1]["unfinite"] == 32


def test_likeness_is_that_of_the_samples_whatever_channels_do():
    draw = np.random.default_rng(0)
    one = draw.normal(size=(40, 7))
    rotation = np.linalg.qr(draw.normal(size=(7, 7)))[0]
    assert cka(one, 3 * one @ rotation + 5) == pytest.approx(1.0)
    assert abs(cka(one, draw.normal(size=(40, 500)))) < 0.2
    assert cka(one, np.ones((40, 3))) is None
    assert cka(one, one[:39]) is None
    assert cka(np.float64(1), np.float64(1)) is None
